/* Activities that flow at fair rates on a clock that callers advance.
 *
 * Rates change only when an activity starts or ends, a capacity changes or a quota is used up. Work flows evenly in
 * between, so the next end is known and no time steps are needed. Only activities that share resources with a change,
 * directly or not, are computed again.
 *
 * Its functions that change something return 0, or -1 with a Python exception. */

typedef struct {
    PyObject_HEAD
    PyObject *names; /* name -> address of its resource */
    PyObject *sets;  /* tuple of names -> bytes: addresses of their resources */
    PyObject *keys;  /* key -> address of the activity without a slot, which runs or is complete but not collected */
    Resource *resources;
    Activity *first, *last;
    Py_ssize_t num_resources, num_activities, room_for; /* the latter: the sum of both that fits into the arrays */
    Room room;
    Ends ends;
    Resource **changed; /* those whose use has changed */
    Activity **fresh;   /* those whose rates may be others, apart from those that share something with them */
    Activity **ended;   /* complete, not collected */
    Py_ssize_t num_changed, num_fresh, num_ended;
    int64_t numbered, searches;
    int64_t generation; /* of the names */
    double now_s;
    int stale;
} Fluid;

/* ---- room ------------------------------------------------------------------------------------------------------ */

static int widen(void *array, Py_ssize_t count) {
    void **place = array, *wider = PyMem_Realloc(*place, count * sizeof(void *));
    if (!wider) {
        PyErr_NoMemory();
        return -1;
    }
    *place = wider;
    return 0;
}

/* Make room for one more resource or activity in every array, so that nothing else allocates. */
static int make_room(Fluid *self) {
    Room *room = &self->room;
    Py_ssize_t more = 2 * self->room_for + 64;
    if (self->num_resources + self->num_activities < self->room_for)
        return 0;
    if (widen(&room->found, more) || widen(&room->limited, more) || widen(&room->settled, more) ||
        widen(&room->full, more) || widen(&room->filling, more) || widen(&room->lowest, more) ||
        widen(&room->quotas, more) || widen(&self->ends.heap, more) || widen(&self->changed, more) ||
        widen(&self->fresh, more) || widen(&self->ended, more))
        return -1;
    self->room_for = more;
    return 0;
}

static void free_room(Fluid *self) {
    Room *room = &self->room;
    void *arrays[] = {room->found,  room->limited, room->settled, room->full,  room->filling, room->lowest,
                      room->quotas, self->ends.heap, self->changed, self->fresh, self->ended};
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++)
        PyMem_Free(arrays[i]);
}

/* ---- what is affected by a change ------------------------------------------------------------------------------ */

static void find_activity(Fluid *self, Activity *one) {
    if (one->mark != self->searches) {
        one->mark = self->searches;
        self->room.found[self->room.num_found++] = one;
    }
}

/* Add a resource, and its users if it connects them: if it is finite, or was until its quota had been saved. */
static void reach(Fluid *self, Resource *resource) {
    Room *room = &self->room;
    int connects = resource->capacity < INFINITY;
    if (resource->mark == self->searches)
        return;
    resource->mark = self->searches;
    if (resource->has_quota)
        room->quotas[room->num_quotas++] = resource;
    renew(resource, self->now_s);
    if (resource->capacity < INFINITY) {
        if (resource->num_users)
            room->full[room->num_full++] = resource;
    } else if (!connects) {
        return;
    }
    for (Use *use = resource->first; use; use = use->after)
        find_activity(self, use->activity);
}

#define is_older(one, other) ((one)->end.number < (other)->end.number)

static int by_number(const void *one, const void *other) {
    const End *a = *(End *const *)one, *b = *(End *const *)other;
    return (a->number > b->number) - (a->number < b->number);
}

/* The activities connected with a change by a chain of resources, in the order of their numbers. */
static void find_affected(Fluid *self) {
    Room *room = &self->room;
    self->searches++;
    room->num_found = room->num_full = room->num_quotas = 0;
    for (Py_ssize_t i = 0; i < self->num_fresh; i++) {
        self->fresh[i]->fresh_at = -1;
        find_activity(self, self->fresh[i]);
    }
    for (Py_ssize_t i = 0; i < self->num_changed; i++) {
        self->changed[i]->changed = 0;
        reach(self, self->changed[i]);
    }
    for (Py_ssize_t i = 0; i < room->num_found; i++) /* which grows meanwhile */
        for (Py_ssize_t j = 0; j < room->found[i]->num_uses; j++)
            if (is_bound(room->found[i]->uses[j].resource))
                reach(self, room->found[i]->uses[j].resource);
    self->num_fresh = self->num_changed = 0;
    if (room->num_found > 1) {
        SORT(Activity, room->found, room->num_found, is_older, by_number);
        SORT(Resource, room->full, room->num_full, is_older, by_number);
    }
}

static void add_fresh(Fluid *self, Activity *one) {
    if (one->fresh_at < 0) {
        one->fresh_at = self->num_fresh;
        self->fresh[self->num_fresh++] = one;
    }
}

static void freshen_users(Fluid *self, Resource *resource) {
    for (Use *use = resource->first; use; use = use->after)
        add_fresh(self, use->activity);
    self->stale = 1;
}

static void add_changed(Fluid *self, Resource *resource) {
    if (!resource->changed) {
        resource->changed = 1;
        self->changed[self->num_changed++] = resource;
    }
    self->stale = 1;
}

/* ---- rates ----------------------------------------------------------------------------------------------------- */

/* Book the work done until now, and continue at another rate. */
static void flow(Fluid *self, Activity *one, double rate) {
    double t = self->now_s, left = one->left - one->rate * (t - one->since_s);
    one->left = left = left > 0.0 ? left : 0.0;
    one->since_s = t;
    one->rate = rate;
    set_end(&self->ends, &one->end, left == 0.0 ? t : rate ? t + left / rate : INFINITY);
}

/* Compute new rates if anything has changed. An unchanged rate changes nothing, not even by rounding. */
static void compute_rates(Fluid *self) {
    Room *room = &self->room;
    if (!self->stale)
        return;
    self->stale = 0;
    find_affected(self);
    if (room->num_found)
        find_fair_rates(room);
    for (Py_ssize_t i = 0; i < room->num_found; i++)
        if (room->found[i]->fair != room->found[i]->rate)
            flow(self, room->found[i], room->found[i]->fair);
    for (Py_ssize_t i = 0; i < room->num_quotas; i++) {
        Resource *resource = room->quotas[i];
        Sum used = {0.0, 0.0};
        for (Use *use = resource->first; use; use = use->after)
            add_to(&used, use->activity->rate);
        set_end(&self->ends, &resource->end, use_quota(&resource->quota, total_of(&used)));
    }
}

/* ---- ends ------------------------------------------------------------------------------------------------------ */

/* It uses nothing any more. */
static void release(Fluid *self, Activity *one) {
    if (one->fresh_at >= 0) {
        Activity *last = self->fresh[--self->num_fresh];
        self->fresh[last->fresh_at = one->fresh_at] = last;
        one->fresh_at = -1;
    }
    set_end(&self->ends, &one->end, INFINITY);
    one->running = 0;
    for (Py_ssize_t i = 0; i < one->num_uses; i++) {
        Use *use = &one->uses[i];
        *(use->before ? &use->before->after : &use->resource->first) = use->after;
        *(use->after ? &use->after->before : &use->resource->last) = use->before;
        use->resource->num_users--;
        if (is_bound(use->resource))
            add_changed(self, use->resource);
    }
    one->num_uses = 0;
    self->stale = 1;
}

static void end_one(Fluid *self, End *end) {
    if (end->is_activity) {
        Activity *one = (Activity *)end;
        one->ended_s = end->end_s;
        self->ended[self->num_ended++] = one;
        release(self, one);
    } else {
        set_end(&self->ends, end, INFINITY);
        freshen_users(self, (Resource *)end);
    }
}

/* End what ends until t, in order; each activity gives its share to the others. */
static void end_until(Fluid *self, double t) {
    Ends *ends = &self->ends;
    compute_rates(self);
    while (ends->count && ends->heap[0]->end_s <= t) {
        self->now_s = ends->heap[0]->end_s;
        end_one(self, ends->heap[0]);
        if (self->stale && self->now_s < t && !(ends->count && ends->heap[0]->end_s == self->now_s))
            compute_rates(self);
    }
}

/* Raise a ValueError that says which values were given; a message need not show the second. */
static int refuse(const char *message, double one, double other) {
    PyObject *shown = PyFloat_FromDouble(one), *also = PyFloat_FromDouble(other);
    if (shown && also)
        PyErr_Format(PyExc_ValueError, message, shown, also);
    Py_XDECREF(shown);
    Py_XDECREF(also);
    return -1;
}

/* Advance to t. Changes at t itself are not computed yet: more may follow. */
static int advance(Fluid *self, double t) {
    if (!(self->now_s <= t && t < INFINITY))
        return refuse("t=%S: must be finite and not before %S", t, self->now_s);
    if (t > self->now_s || !self->stale) {
        end_until(self, t);
        self->now_s = t;
    }
    return 0;
}

/* When the next activity completes or the next quota is used up. */
static double next_end(Fluid *self) {
    compute_rates(self);
    double first_s = self->ends.count ? self->ends.heap[0]->end_s : INFINITY;
    for (Py_ssize_t i = 0; i < self->num_ended; i++)
        if (self->ended[i]->ended_s < first_s)
            first_s = self->ended[i]->ended_s;
    return first_s;
}

static double left_of(const Activity *one, double t) {
    double left = one->running ? one->left - one->rate * (t - one->since_s) : 0.0;
    return left > 0.0 ? left : 0.0;
}

/* ---- activities ------------------------------------------------------------------------------------------------ */

/* The address that a dict holds for a key, or NULL: without an exception, if it holds none. */
static void *address_in(PyObject *dict, PyObject *key) {
    PyObject *found = PyDict_GetItemWithError(dict, key);
    return found ? PyLong_AsVoidPtr(found) : NULL;
}

static int set_address(PyObject *dict, PyObject *key, void *address) {
    PyObject *number = PyLong_FromVoidPtr(address);
    int failed = !number || PyDict_SetItem(dict, key, number);
    Py_XDECREF(number);
    return failed ? -1 : 0;
}

static Resource *find_resource(Fluid *self, PyObject *name) {
    Resource *found = address_in(self->names, name);
    if (!found && !PyErr_Occurred())
        PyErr_Format(PyExc_ValueError, "resource=%R: is unknown; add it first", name);
    return found;
}

static Activity *find_by_key(Fluid *self, PyObject *key) {
    Activity *found = address_in(self->keys, key);
    if (!found && !PyErr_Occurred())
        PyErr_Format(PyExc_ValueError, "key=%R: no activity with this key is running", key);
    return found;
}

/* The resources of these names (bytes: their addresses), borrowed. */
static PyObject *find_set(Fluid *self, PyObject *names) {
    PyObject *found = PyDict_GetItemWithError(self->sets, names);
    if (found || PyErr_Occurred())
        return found;
    Py_ssize_t count = PyTuple_GET_SIZE(names);
    found = PyBytes_FromStringAndSize(NULL, count * sizeof(Resource *));
    if (!found)
        return NULL;
    Resource **set = (Resource **)PyBytes_AS_STRING(found);
    for (Py_ssize_t i = 0; i < count; i++) {
        set[i] = find_resource(self, PyTuple_GET_ITEM(names, i));
        for (Py_ssize_t j = 0; set[i] && j < i; j++)
            if (set[j] == set[i]) {
                PyErr_Format(PyExc_ValueError, "resources=%R: contains one twice", names);
                set[i] = NULL;
            }
        if (!set[i]) {
            Py_DECREF(found);
            return NULL;
        }
    }
    int failed = PyDict_SetItem(self->sets, names, found);
    Py_DECREF(found); /* the dict holds it */
    return failed ? NULL : found;
}

static void use_all(Activity *one, Resource **set, Py_ssize_t count) {
    for (Py_ssize_t i = 0; i < count; i++) {
        Use *use = &one->uses[i];
        use->activity = one;
        use->resource = set[i];
        use->before = set[i]->last;
        use->after = NULL;
        *(set[i]->last ? &set[i]->last->after : &set[i]->first) = use;
        set[i]->last = use;
        set[i]->num_users++;
    }
    one->num_uses = count;
}

static void append_activity(Fluid *self, Activity *one) {
    one->before = self->last;
    *(self->last ? &self->last->after : &self->first) = one;
    self->last = one;
    self->num_activities++;
}

static int refuse_start(Fluid *self, PyObject *key, Activity **slot, double amount, double limit, double weight) {
    if (slot ? *slot : address_in(self->keys, key)) {
        PyErr_Format(PyExc_ValueError, "key=%R: is in use; keys are free again once complete or stopped", key);
        return -1;
    }
    if (PyErr_Occurred())
        return -1;
    if (!(amount >= 0 && amount < INFINITY))
        return refuse("amount=%S: must be finite and 0 or more", amount, 0.0);
    if (!(weight > 0 && weight < INFINITY))
        return refuse("weight=%S: must be finite and more than 0", weight, 0.0);
    if (!(limit >= 0))
        return refuse("limit=%S: must be 0 or more", limit, 0.0);
    return 0;
}

/* Begin an activity that uses the resources of a set; returns it, or NULL with an exception. Its owner, if it has a
 * slot for it, is its key. */
static Activity *start_on(Fluid *self, double t, PyObject *key, Activity **slot, double amount, PyObject *set,
                          double limit, double weight) {
    if (refuse_start(self, key, slot, amount, limit, weight) || advance(self, t) || make_room(self))
        return NULL;
    Py_ssize_t count = PyBytes_GET_SIZE(set) / sizeof(Resource *);
    Activity *one = PyMem_Calloc(1, sizeof(Activity) + count * sizeof(Use));
    if (!one) {
        PyErr_NoMemory();
        return NULL;
    }
    if (slot) {
        *slot = one;
    } else if (set_address(self->keys, key, one)) {
        PyMem_Free(one);
        return NULL;
    }
    one->slot = slot;
    one->key = Py_NewRef(key);
    one->end = (End){INFINITY, ++self->numbered, -1, 1};
    one->limit = limit;
    one->weight = weight;
    one->amount = one->left = amount;
    one->since_s = t;
    one->fresh_at = -1;
    append_activity(self, one);
    if (amount) {
        one->running = 1;
        use_all(one, (Resource **)PyBytes_AS_STRING(set), count);
        add_fresh(self, one);
        self->stale = 1;
    } else {
        one->ended_s = t;
        self->ended[self->num_ended++] = one;
    }
    return one;
}

/* Begin an activity that is found by its key. */
static Activity *start_activity(Fluid *self, double t, PyObject *key, double amount, PyObject *names, double limit,
                                double weight) {
    if (refuse_start(self, key, NULL, amount, limit, weight))
        return NULL;
    PyObject *set = find_set(self, names);
    return set ? start_on(self, t, key, NULL, amount, set, limit, weight) : NULL;
}

/* Forget an activity that uses nothing any more, and is not among the ended ones. */
static int discard(Fluid *self, Activity *one) {
    *(one->before ? &one->before->after : &self->first) = one->after;
    *(one->after ? &one->after->before : &self->last) = one->before;
    self->num_activities--;
    int failed = 0;
    if (one->slot)
        *one->slot = NULL;
    else
        failed = PyDict_DelItem(self->keys, one->key);
    PyObject *objects[] = {one->key, one->then, one->accounts};
    PyMem_Free(one);
    for (int i = 0; i < 3; i++)
        Py_XDECREF(objects[i]);
    return failed;
}

/* Abandon an activity, which must still be discarded; returns how much of its amount was left. */
static double abandon(Fluid *self, double t, Activity *one) {
    double left = left_of(one, t);
    if (one->running) {
        release(self, one);
        return left;
    }
    for (Py_ssize_t i = 0; i < self->num_ended; i++)
        if (self->ended[i] == one)
            self->ended[i] = self->ended[--self->num_ended];
    return left;
}

/* Go on with what is left of an activity by another weight, as if it was abandoned and begun again. */
static int reweigh(Fluid *self, double t, Activity *one, double weight) {
    if (advance(self, t))
        return -1;
    Py_ssize_t count = one->num_uses;
    one->left = abandon(self, t, one);
    one->end.number = ++self->numbered;
    one->weight = weight;
    one->since_s = t;
    one->rate = 0.0;
    if (!one->left) {
        one->ended_s = t;
        self->ended[self->num_ended++] = one;
        return 0;
    }
    Resource *set[count + 1]; /* C has no empty arrays */
    for (Py_ssize_t i = 0; i < count; i++)
        set[i] = one->uses[i].resource;
    one->running = 1;
    use_all(one, set, count);
    add_fresh(self, one);
    self->stale = 1;
    return 0;
}

/* Put the complete activities in the order of their starts; the caller discards them and sets num_ended to 0. */
static void sort_ended(Fluid *self) {
    SORT(Activity, self->ended, self->num_ended, is_older, by_number);
}

/* ---- resources ------------------------------------------------------------------------------------------------- */

static int add_resource(Fluid *self, PyObject *name, double capacity) {
    if (!(capacity >= 0)) {
        PyErr_Format(PyExc_ValueError, "resource=%R: its capacity must be 0 or more", name);
        return -1;
    }
    Resource *before = address_in(self->names, name), *one;
    if (PyErr_Occurred() || make_room(self))
        return -1;
    one = PyMem_Calloc(1, sizeof(Resource));
    if (!one) {
        PyErr_NoMemory();
        return -1;
    }
    if (before)
        set_end(&self->ends, &before->end, INFINITY);
    one->end = (End){INFINITY, ++self->numbered, -1, 0};
    one->given = one->capacity = capacity;
    one->older = self->resources;
    self->resources = one;
    self->num_resources++;
    return set_address(self->names, name, one);
}

static int remove_resource(Fluid *self, PyObject *name) {
    Resource *found = find_resource(self, name);
    if (!found)
        return -1;
    if (found->num_users) {
        PyErr_Format(PyExc_ValueError, "resource=%R: is in use", name);
        return -1;
    }
    set_end(&self->ends, &found->end, INFINITY);
    return PyDict_DelItem(self->names, name);
}

/* A resource gives more or less than before. */
static void disturb(Fluid *self, Resource *resource) {
    if (!resource->has_quota)
        resource->capacity = resource->given;
    freshen_users(self, resource);
    add_changed(self, resource);
}

static int change_capacity(Fluid *self, double t, PyObject *name, double capacity) {
    Resource *found = find_resource(self, name);
    if (!found)
        return -1;
    if (!(capacity >= 0))
        return refuse("capacity=%S: must be 0 or more", capacity, 0.0);
    if (advance(self, t))
        return -1;
    if (found->given != capacity) {
        found->given = capacity;
        disturb(self, found);
    }
    return 0;
}

static int read_float(PyObject *object, const char *name, double *value) {
    PyObject *found = PyObject_GetAttrString(object, name);
    *value = found ? PyFloat_AsDouble(found) : -1.0;
    Py_XDECREF(found);
    return PyErr_Occurred() ? -1 : 0;
}

/* Replace a quota by one with these cores and a full bucket of this depth, or by none. */
static int change_quota(Fluid *self, double t, PyObject *name, PyObject *quota) {
    Resource *found = find_resource(self, name);
    Quota read = {0};
    if (!found)
        return -1;
    if (quota != Py_None) {
        if (!PyTuple_Check(quota)) {
            PyErr_SetString(PyExc_TypeError, "quota: must be (cores, depth_s) or None");
            return -1;
        }
        if (!PyArg_ParseTuple(quota, "dd", &read.cores, &read.depth_s))
            return -1;
    }
    if (advance(self, t))
        return -1;
    read.left_s = read.depth_s;
    read.since_s = t;
    found->has_quota = quota != Py_None;
    found->quota = read;
    set_end(&self->ends, &found->end, INFINITY);
    disturb(self, found);
    return 0;
}

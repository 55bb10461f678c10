/* Activities that follow a clock, each calling back at its end. */

/* On which is booked what was done. */
typedef struct Account {
    double done;
    struct Account *older;
    Py_ssize_t count;  /* of its activities in progress */
    char is_divided;   /* whether one of them may have another weight than 1 */
} Account;

typedef struct {
    PyObject_HEAD
    Clock *clock;
    Fluid *fluid;
    PyObject *names;               /* of accounts -> their addresses */
    PyObject *sets;                /* tuple of such names -> bytes: addresses of the accounts */
    Account *accounts;             /* all that there ever were: activities may still point to them */
    PyObject *settle, *complete;   /* the two steps below */
    int settling;
    double due_s;
} Sharing;

static int act_now(Sharing *self, int priority, PyObject *step) {
    return act_at(self->clock, self->clock->now, priority, step, NULL);
}

/* Schedule one settlement for everything that begins or ends at this moment. */
static int settle_soon(Sharing *self) {
    if (self->settling)
        return 0;
    self->settling = 1;
    return act_now(self, NETWORK, self->settle);
}

static int settle(Sharing *self) {
    double due_s = next_end(self->fluid);
    self->settling = 0;
    int is_new = due_s != self->due_s && isfinite(due_s);
    self->due_s = due_s;
    return is_new ? act_at(self->clock, due_s, MACHINE, self->complete, NULL) : 0;
}

/* ---- accounts --------------------------------------------------------------------------------------------------- */

static Account *find_account(Sharing *self, PyObject *name) {
    Account *found = address_in(self->names, name);
    if (found || PyErr_Occurred())
        return found;
    found = PyMem_Calloc(1, sizeof(Account));
    if (!found) {
        PyErr_NoMemory();
        return NULL;
    }
    found->older = self->accounts;
    self->accounts = found;
    return set_address(self->names, name, found) ? NULL : found;
}

/* The accounts of these names (bytes: their addresses), borrowed. */
static PyObject *find_accounts(Sharing *self, PyObject *names) {
    PyObject *found = PyDict_GetItemWithError(self->sets, names);
    if (found || PyErr_Occurred())
        return found;
    Py_ssize_t count = PyTuple_GET_SIZE(names);
    found = PyBytes_FromStringAndSize(NULL, count * sizeof(Account *));
    int failed = !found;
    for (Py_ssize_t i = 0; !failed && i < count; i++) {
        Account *one = find_account(self, PyTuple_GET_ITEM(names, i));
        failed = !one;
        ((Account **)PyBytes_AS_STRING(found))[i] = one;
    }
    if (!failed)
        failed = PyDict_SetItem(self->sets, names, found);
    Py_XDECREF(found); /* the dict holds it */
    return failed ? NULL : found;
}

static inline Py_ssize_t num_accounts(const Activity *one) { return PyBytes_GET_SIZE(one->accounts) / sizeof(Account *); }

static inline Account *account_of(const Activity *one, Py_ssize_t i) {
    return ((Account **)PyBytes_AS_STRING(one->accounts))[i];
}

/* Whether what is done of an activity is booked on an account. */
static int is_booked_on(const Activity *one, const Account *account) {
    for (Py_ssize_t i = 0; i < num_accounts(one); i++)
        if (account_of(one, i) == account)
            return 1;
    return 0;
}

/* Book what was done of an activity. */
static void book(Activity *one, double left) {
    for (Py_ssize_t i = 0; i < num_accounts(one); i++) {
        Account *account = account_of(one, i);
        account->done = account->done + one->amount - left;
        account->count--;
    }
}

/* ---- activities ------------------------------------------------------------------------------------------------- */

/* What follows at the end of an activity that begins now, and the accounts (bytes) on which is booked what is done. */
static int follow(Sharing *self, Activity *one, PyObject *then, PyObject *accounts) {
    if (!one)
        return -1;
    one->then = Py_NewRef(then);
    one->accounts = Py_NewRef(accounts);
    for (Py_ssize_t i = 0; i < num_accounts(one); i++)
        account_of(one, i)->count++;
    return settle_soon(self);
}

/* Begin an activity on a set of resources, which its owner keeps in a slot. */
static int begin_on(Sharing *self, PyObject *owner, Activity **slot, double amount, PyObject *set, PyObject *then,
                    PyObject *accounts, double limit) {
    return follow(self, start_on(self->fluid, self->clock->now, owner, slot, amount, set, limit, 1.0), then, accounts);
}

/* End an activity early. */
static int stop_activity(Sharing *self, Activity *one) {
    if (advance(self->fluid, self->clock->now))
        return -1;
    double left = abandon(self->fluid, self->clock->now, one);
    book(one, left);
    return discard(self->fluid, one) || settle_soon(self) ? -1 : 0;
}

/* End the activity of a slot early, if it is in progress. */
static int stop_slot(Sharing *self, Activity **slot) { return *slot ? stop_activity(self, *slot) : 0; }

/* All activities of an account in progress have this weight together, each an equal part of it. */
static int divide(Sharing *self, Account *account, double weight) {
    Py_ssize_t count = account->count;
    double each = count ? weight / count : 1.0;
    if (each == 1.0 && !account->is_divided)
        return 0;
    for (Activity *one = self->fluid->first; count && one; one = one->after) {
        if (!is_booked_on(one, account) || each == one->weight)
            continue;
        if (reweigh(self->fluid, self->clock->now, one, each) || settle_soon(self))
            return -1;
    }
    account->is_divided = each != 1.0;
    return 0;
}

/* Take what happens at the ends of completed activities out of the model, into an array of references; it may start
 * others. */
static int close_completed(Sharing *self, PyObject **all) {
    Fluid *fluid = self->fluid;
    Py_ssize_t count = fluid->num_ended;
    int failed = 0;
    sort_ended(fluid);
    fluid->num_ended = 0;
    for (Py_ssize_t i = 0; i < count; i++) {
        all[i] = Py_NewRef(fluid->ended[i]->then);
        book(fluid->ended[i], 0.0);
        failed |= discard(fluid, fluid->ended[i]);
    }
    return failed ? -1 : 0;
}

/* Call back completed activities. */
static int follow_completed(Sharing *self) {
    Py_ssize_t count = self->fluid->num_ended;
    PyObject *few[16], **all = count > 16 ? PyMem_Malloc(count * sizeof *all) : few;
    if (!all) {
        PyErr_NoMemory();
        return -1;
    }
    int failed = close_completed(self, all);
    for (Py_ssize_t i = 0; i < count; i++) {
        failed = failed || go_on(all[i]);
        Py_DECREF(all[i]);
    }
    if (all != few)
        PyMem_Free(all);
    return failed ? -1 : 0;
}

/* An end is due; after a change of rates there may be none. */
static int complete(Sharing *self) {
    if (self->clock->now < self->due_s)
        return 0;
    if (advance(self->fluid, self->clock->now))
        return -1;
    self->due_s = INFINITY;
    int settles = !self->settling;
    self->settling = 1;
    if (follow_completed(self))
        return -1;
    if (!settles)
        return 0;
    return is_next((Timeline *)self->clock->timeline, NETWORK) ? settle(self) : act_now(self, NETWORK, self->settle);
}

static int run_settle(Step *step) { return settle((Sharing *)step->owner); }

static int run_complete(Step *step) { return complete((Sharing *)step->owner); }

/* The sum of all that was booked, with what is done by now of activities in progress. */
static double done_by_now(Sharing *self, const Account *account) {
    Sum sum = {0.0, 0.0};
    for (Activity *one = self->fluid->first; one; one = one->after)
        if (is_booked_on(one, account))
            add_to(&sum, one->amount - left_of(one, self->clock->now));
    return account->done + total_of(&sum);
}

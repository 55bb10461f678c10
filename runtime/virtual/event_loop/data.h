/* Which worker trains on which samples: the twin of Shards (runtime/core/data/shards.py) for members that stay. */

enum { DYNAMIC, SHARED, EVEN };

static inline int64_t size_of(const Range *range) { return range->stop - range->start; }

/* ---- queues of ranges -------------------------------------------------------------------------------------------- */

static inline Range *range_at(const Queue *queue, int64_t place) {
    return &queue->items[(queue->first + place) % queue->room];
}

static int make_room(Queue *queue) {
    if (queue->count < queue->room)
        return 0;
    int64_t room = 2 * queue->room + 4;
    Range *items = wider(NULL, room, sizeof *items);
    if (!items)
        return -1;
    for (int64_t place = 0; place < queue->count; place++)
        items[place] = *range_at(queue, place);
    PyMem_Free(queue->items);
    *queue = (Queue){items, room, 0, queue->count};
    return 0;
}

static int push_back(Queue *queue, Range range) {
    if (make_room(queue))
        return -1;
    queue->count++;
    *range_at(queue, queue->count - 1) = range;
    return 0;
}

static int push_front(Queue *queue, Range range) {
    if (make_room(queue))
        return -1;
    queue->first = (queue->first + queue->room - 1) % queue->room;
    queue->count++;
    *range_at(queue, 0) = range;
    return 0;
}

static Range pop_front(Queue *queue) {
    Range range = *range_at(queue, 0);
    queue->first = (queue->first + 1) % queue->room;
    queue->count--;
    return range;
}

static Range remove_at(Queue *queue, int64_t place) {
    if (!place)
        return pop_front(queue);
    Range range = *range_at(queue, place);
    for (int64_t i = place; i + 1 < queue->count; i++)
        *range_at(queue, i) = *range_at(queue, i + 1);
    queue->count--;
    return range;
}

/* ---- epochs ------------------------------------------------------------------------------------------------------ */

/* Cut.length. */
static int64_t length_of(const Loop *l, int64_t shard) {
    if (l->shard_samples < 0)
        return l->num_samples / l->num_shards + (shard < l->num_samples % l->num_shards);
    int64_t left = l->num_samples - shard * l->shard_samples;
    return l->shard_samples > left ? left : l->shard_samples;
}

static int is_finished(const Loop *l) { return l->epochs >= 0 && l->epochs_done >= l->epochs; }

static Epoch *find_epoch(Loop *l, int64_t number) {
    for (int i = 0; i < l->num_open; i++)
        if (l->open[i].number == number)
            return &l->open[i];
    return NULL;
}

/* An epoch: (its Epoch, its partial, its done, its next shard, the number of those that are done). */
static int add_epoch(Loop *l, int64_t number, PyObject *books) {
    PyObject *epoch, *partial, *done;
    long long next_shard, num_done;
    if (!PyArg_ParseTuple(books, "OO!O!LL", &epoch, &PyDict_Type, &partial, &PyByteArray_Type, &done, &next_shard,
                          &num_done))
        return -1;
    if (PyByteArray_GET_SIZE(done) != l->num_shards) {
        PyErr_SetString(PyExc_ValueError, "an epoch of other shards");
        return -1;
    }
    if (l->num_open == l->open_room) {
        Epoch *open = wider(l->open, 2 * l->open_room + 4, sizeof *open);
        if (!open)
            return -1;
        l->open = open;
        l->open_room = 2 * l->open_room + 4;
    }
    l->open[l->num_open++] =
        (Epoch){number, next_shard, num_done, Py_NewRef(epoch), Py_NewRef(partial), Py_NewRef(done)};
    return 0;
}

static void forget_epoch(Loop *l, int place) {
    Py_CLEAR(l->open[place].epoch);
    Py_CLEAR(l->open[place].partial);
    Py_CLEAR(l->open[place].done);
    for (int i = place; i + 1 < l->num_open; i++)
        l->open[i] = l->open[i + 1];
    l->num_open--;
}

static int open_next(Loop *l) {
    int64_t number = l->epochs_opened++;
    PyObject *books = PyObject_CallNoArgs(l->new_epoch);
    int failed = !books || add_epoch(l, number, books);
    Py_XDECREF(books);
    for (int64_t part = 0; !failed && l->policy == EVEN && part < l->num_shards; part++)
        failed = push_back(&l->local[part], (Range){number, part, 0, length_of(l, part), part});
    return failed ? -1 : 0;
}

/* Epoch.applied. */
static int book_applied(Loop *l, Epoch *epoch, const Range *range) {
    int64_t samples = size_of(range), length = length_of(l, range->shard);
    char *done = PyByteArray_AS_STRING(epoch->done);
    PyObject *shard = NULL;
    if (PyDict_GET_SIZE(epoch->partial)) {
        if (!(shard = PyLong_FromLongLong(range->shard)))
            return -1;
        PyObject *before = PyDict_GetItemWithError(epoch->partial, shard);
        if (before) {
            samples += PyLong_AsLongLong(before);
            PyDict_DelItem(epoch->partial, shard);
        }
    }
    int failed = 0;
    if (done[range->shard] || samples > length) {
        PyErr_Format(PyExc_RuntimeError, "shard %lld of epoch %lld: more samples applied than it has (%lld)",
                     (long long)range->shard, (long long)range->epoch, (long long)length);
        failed = 1;
    } else if (samples == length) {
        done[range->shard] = 1;
        epoch->num_done++;
        l->shards_done++;
    } else {
        PyObject *value = PyLong_FromLongLong(samples);
        if (!shard)
            shard = PyLong_FromLongLong(range->shard);
        failed = !value || !shard || PyDict_SetItem(epoch->partial, shard, value);
        Py_XDECREF(value);
    }
    Py_XDECREF(shard);
    return failed ? -1 : 0;
}

/* Shards.applied: the number of epochs that this completed; negative: an exception. */
static int apply_samples(Loop *l, const Queue *ranges) {
    int completed = 0;
    for (int64_t i = 0; i < ranges->count; i++) {
        Range *range = range_at(ranges, i);
        Epoch *epoch = find_epoch(l, range->epoch);
        if (!epoch) {
            PyErr_SetString(PyExc_KeyError, "an epoch that is not open");
            return -1;
        }
        if (book_applied(l, epoch, range))
            return -1;
        l->samples_applied += size_of(range);
        if (epoch->num_done == l->num_shards) {
            forget_epoch(l, (int)(epoch - l->open));
            l->epochs_done++;
            completed++;
        }
    }
    if (!l->num_open && !is_finished(l) && open_next(l))
        return -1;
    return completed;
}

/* Shards.returned, to the tail of the queue. */
static int return_samples(Loop *l, const Queue *ranges, int64_t worker) {
    for (int64_t i = 0; i < ranges->count; i++) {
        Range range = *range_at(ranges, i);
        range.worker = worker;
        if (push_back(&l->requeued, range))
            return -1;
    }
    return 0;
}

/* ---- drawing ----------------------------------------------------------------------------------------------------- */

/* These answer 1 with a range, 0 without one, -1 for an exception. */

static int fresh(Loop *l, Range *found) {
    Epoch *epoch = find_epoch(l, l->epochs_opened - 1);
    if (l->policy == EVEN || !epoch || epoch->next_shard >= l->num_shards)
        return 0;
    int64_t block = epoch->next_shard / SHUFFLED;
    if (l->shuffled_epoch != epoch->number || l->shuffled_block != block) {
        PyObject *order = PyObject_CallFunction(l->shuffle, "LL", (long long)epoch->number, (long long)block);
        if (!order || !PyBytes_AsString(order))
            return -1;
        Py_XSETREF(l->shuffled, order);
        l->shuffled_epoch = epoch->number;
        l->shuffled_block = block;
    }
    int64_t shard = ((const int64_t *)PyBytes_AS_STRING(l->shuffled))[epoch->next_shard++ % SHUFFLED];
    *found = (Range){epoch->number, shard, 0, length_of(l, shard), -1};
    return 1;
}

static int queued(Loop *l, int64_t worker, Range *found) {
    int64_t others = -1, older = -1, newest = l->epochs_opened - 1;
    for (int64_t i = 0; i < l->requeued.count && (others < 0 || (l->num_open > 1 && older < 0)); i++) {
        const Range *one = range_at(&l->requeued, i);
        if (one->worker == worker)
            continue;
        if (others < 0)
            others = i;
        if (l->num_open > 1 && older < 0 && one->epoch < newest)
            older = i;
    }
    if (older < 0) {
        int got = fresh(l, found);
        if (got)
            return got;
    }
    int64_t place = older >= 0 ? older : others;
    if (place < 0)
        return 0;
    *found = remove_at(&l->requeued, place);
    return 1;
}

static int share(Loop *l, Range *found) {
    int64_t donor = -1, most = 0;
    for (int64_t worker = 0; worker < l->workers; worker++) {
        int64_t samples = 0;
        for (int64_t i = 0; i < l->local[worker].count; i++)
            samples += size_of(range_at(&l->local[worker], i));
        if (samples > most) {
            most = samples;
            donor = worker;
        }
    }
    if (donor < 0 || most < 2)
        return 0;
    Queue *queue = &l->local[donor];
    Range *last = range_at(queue, queue->count - 1);
    int64_t given = size_of(last) < most / 2 ? size_of(last) : most / 2;
    *found = (Range){last->epoch, last->shard, last->stop - given, last->stop, -1};
    if (given < size_of(last))
        last->stop -= given;
    else
        queue->count--;
    return 1;
}

static int may_open_next(const Loop *l) {
    if (!l->overlap || !l->num_open || (l->epochs >= 0 && l->epochs_opened >= l->epochs))
        return 0;
    return l->policy == EVEN || l->epochs_opened - 1 == l->open[0].number;
}

static int draw_samples(Loop *l, int64_t worker) {
    Queue *local = &l->local[worker];
    Range found;
    int got = queued(l, worker, &found);
    if (!got && l->policy == SHARED)
        got = share(l, &found);
    if (got < 0)
        return -1;
    if (!got && may_open_next(l)) {
        if (open_next(l))
            return -1;
        return local->count || ((l->policy != EVEN || l->requeued.count) ? draw_samples(l, worker) : 0);
    }
    if (!got && l->requeued.count) {
        found = remove_at(&l->requeued, 0);
        got = 1;
    }
    if (got && push_back(local, found))
        return -1;
    return got;
}

/* Shards.take: how many samples; none if no data is free now. Negative: an exception. */
static int64_t take_samples(Loop *l, int64_t worker, int64_t wanted, Queue *taken) {
    Queue *local = &l->local[worker];
    int64_t missing = wanted;
    while (missing) {
        if (!local->count) {
            int drawn = draw_samples(l, worker);
            if (drawn < 0)
                return -1;
            if (!drawn)
                break;
        }
        Range head = pop_front(local);
        if (size_of(&head) > missing) {
            Range tail = head;
            head.stop = tail.start = head.start + missing;
            if (push_front(local, tail))
                return -1;
        }
        missing -= size_of(&head);
        if (push_back(taken, head))
            return -1;
    }
    return wanted - missing;
}

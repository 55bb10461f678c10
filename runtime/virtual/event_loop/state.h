/* What a job's loop over events knows: the queue of what happens next, work in progress, servers, rows. */

enum { MACHINE = 0, MESSAGE = 2, TIMER = 3 };  /* priorities of runtime/virtual/clock.py */
enum { PUSHED, ARRIVED, SERVE, WOKE };         /* what happens: a gradient is at the servers, at the coordinator, ... */
enum { UNUSED_ID = -1 };

#define ROOM 4096 /* rows that are collected */
#define SHUFFLED 1024 /* shards whose order is computed at once: BLOCK of runtime/core/data/permutation.py */

/* Samples of a shard; of those that came back, the worker that had them (-1: unknown). */
typedef struct {
    int64_t epoch, shard, start, stop, worker;
} Range;

typedef struct {
    Range *items; /* a ring */
    int64_t room, first, count;
} Queue;

typedef struct {
    int64_t number, next_shard, num_done;
    PyObject *epoch, *partial, *done; /* the Epoch, and its books */
} Epoch;

typedef struct {
    double when_s;
    int64_t sequence, about; /* about: a place among works */
    int priority, kind;
    PyObject *given; /* the TimerFired of WOKE, else NULL */
} Entry;

/* Numbers of a work, by the names that Python has for them: the only list of these fields (work_fields shows them). */
#define WORK_INTEGERS(X) X(id) X(worker) X(iteration) X(version) X(samples) X(assigned_samples) X(accum)
/* t: when the coordinator received it. */
#define WORK_SECONDS(X) X(delay_s) X(slowdown_frac) WORK_TIMES(X) X(loaded_s) X(since_s) X(t)

#define OBJECT_FIELD(name) PyObject *name;
#define SECOND_FIELD(name) double name;
#define NUMBER_FIELD(name) int64_t name;
#define FLAG_FIELD(name) char name;
#define ARRAY_FIELD(type, name, length) PyObject *name##_bytes; type *name;

/* A Compute in progress, then its gradient until it is used. */
typedef struct {
    WORK_INTEGERS(NUMBER_FIELD)
    int64_t next; /* of the same worker that is unused, or the next free place; -1: none */
    int64_t mark; /* the last answer in which it was named */
    WORK_SECONDS(SECOND_FIELD)
    Queue ranges;    /* its samples */
    PyObject *event; /* Arrived, as soon as it was */
} Work;

/* A row of a gradient: a column's name, and its value of a work. */
#define ROW_INTEGERS(X)                                                                                       \
    X(worker, work->worker) X(iteration, work->iteration) X(grad, work->id) X(version_read, work->version)    \
    X(samples, work->samples) X(assigned_samples, work->assigned_samples) X(applied_version, applied_version)
enum { NUM_ROW_INTEGERS = 7, NUM_ROW_FLOATS = NUM_TIMES + 2 }; /* t and applied_t, too */

typedef struct {
    int64_t samples, accum;
    double data_s, real_s, paced_s; /* paced_s < 0: not paced */
} Pace;

typedef struct {
    Entry *heap;
    Py_ssize_t count, room;
    int64_t sequence;
} Inbox; /* what waits for the coordinator, in the order in which it came */

/* Arrays that Python sees as bytearrays: element type, name, length. */
#define ARRAYS(X) X(int64_t, row_integers, NUM_ROW_INTEGERS * ROOM) X(double, row_floats, NUM_ROW_FLOATS * ROOM)

/* Numbers that Python sees, by the names that it has for them: the only list of these fields. */
#define SECONDS(X)                                                                                            \
    X(now) X(t) X(busy_until_s) X(idle_s) X(summed_s) X(decision_s) X(control_s) X(sleep_overshoot_s)         \
    X(transfer_s) X(update_base_s) X(update_per_byte_s) X(foreign_s) X(ring_s) X(step_s)
#define NUMBERS(X)                                                                                            \
    X(version) X(next_grad_id) X(sequence) X(foreign_priority) X(foreign_sequence) X(rows) X(timers)          \
    X(events) X(policy) X(epochs) X(epochs_opened) X(epochs_done) X(samples_applied) X(shards_done)           \
    X(num_shards) X(shard_samples) X(num_samples)
#define FLAGS(X)                                                                                              \
    X(keeps_rows) X(keeps_lines) X(are_replicas) X(overlap) X(shares_memory) X(declares_stuck) X(serving)     \
    X(over) X(serves) X(begun)

/* Python objects, set before the first event: functions, types, and the books that Python sees, too. By worker, where
 * a list or dict is one: when it was idle, its iterations, incarnation, name, and what draws its jitter. */
#define NEEDED(X)                                                                                             \
    X(handle) X(new_epoch) X(shuffle) X(finish) X(grads) X(remember) X(histories) X(disturb) X(added) X(pace) \
    X(write_rows) X(write_line) X(note_held) X(note_epoch) X(learn) X(idle_since_s) X(iterations)             \
    X(incarnations) X(names) X(factors) X(server_names) X(num_bytes) X(reported) X(free_s)
/* The event and the answer that Python goes on with. */
#define OBJECTS(X) NEEDED(X) X(event) X(answer)

typedef struct {
    PyObject_HEAD
    ARRAYS(ARRAY_FIELD)
    OBJECTS(OBJECT_FIELD)
    SECONDS(SECOND_FIELD)
    NUMBERS(NUMBER_FIELD)
    FLAGS(FLAG_FIELD)
    PyObject *hosts_held; /* the capsule of the machines; NULL: there are none */
    Hosts *hosts;
    Decisions decisions;
    int64_t *counter; /* of what was ever scheduled */
    PyObject **numbers, **held; /* of workers: as Python integers; Computes that wait for data */
    int64_t *busy, *unused, *worker_mark;
    Pace *paces; /* of the last batch of every worker */
    Entry *heap;
    Py_ssize_t count, room;
    Work *works;
    int64_t num_works, free_work;
    Inbox inbox;
    int64_t *named; /* the gradients of an answer, in order */
    int64_t named_room, num_named;
    Queue *local, requeued;
    Epoch *open;
    int num_open, open_room;
    PyObject *shuffled; /* the order of a block of an epoch's shards */
    int64_t shuffled_epoch, shuffled_block;
    int64_t workers, servers, num_busy, num_held, stop, stamp;
} Loop;

/* ---- what happens next ------------------------------------------------------------------------------------------ */

static inline int is_before(const Entry *one, const Entry *other) {
    if (one->when_s != other->when_s)
        return one->when_s < other->when_s;
    if (one->priority != other->priority)
        return one->priority < other->priority;
    return one->sequence < other->sequence;
}

HEAP(Loop, Entry, is_before, push_entry, pop_entry)
HEAP(Inbox, Entry, is_before, push_waiting, pop_waiting)

static void *wider(void *array, int64_t count, size_t size) {
    void *found = PyMem_Realloc(array, (size_t)count * size);
    if (!found)
        PyErr_NoMemory();
    return found;
}

/* As Clock.at: now if that has passed; takes over the reference to `given`. */
static int happen_at(Loop *l, double when_s, int priority, int kind, int64_t about, PyObject *given) {
    Entry entry = {when_s > l->now ? when_s : l->now, ++*l->counter, about, priority, kind, given};
    return push_entry(l, entry);
}

/* ---- work in progress -------------------------------------------------------------------------------------------- */

static int64_t new_work(Loop *l) {
    if (l->free_work < 0) {
        int64_t before = l->num_works, count = 2 * before + 64;
        Work *works = wider(l->works, count, sizeof *works);
        if (!works)
            return -1;
        memset(works + before, 0, (size_t)(count - before) * sizeof *works);
        for (int64_t place = before; place < count; place++) {
            works[place].id = UNUSED_ID;
            works[place].next = place + 1 < count ? place + 1 : -1;
        }
        l->works = works;
        l->num_works = count;
        l->free_work = before;
    }
    int64_t place = l->free_work;
    l->free_work = l->works[place].next;
    Queue ranges = l->works[place].ranges;
    ranges.count = ranges.first = 0;
    memset(&l->works[place], 0, sizeof(Work));
    l->works[place].ranges = ranges;
    l->works[place].next = -1;
    return place;
}

static void free_work(Loop *l, int64_t place) {
    Py_CLEAR(l->works[place].event);
    l->works[place].id = UNUSED_ID;
    l->works[place].next = l->free_work;
    l->free_work = place;
}

static void keep_unused(Loop *l, int64_t place) {
    l->works[place].next = l->unused[l->works[place].worker];
    l->unused[l->works[place].worker] = place;
}

static int64_t find_unused(Loop *l, int64_t worker, int64_t id) {
    int64_t place = l->unused[worker];
    while (place >= 0 && l->works[place].id != id)
        place = l->works[place].next;
    return place;
}

static void take_unused(Loop *l, int64_t place) {
    int64_t *link = &l->unused[l->works[place].worker];
    while (*link != place)
        link = &l->works[*link].next;
    *link = l->works[place].next;
}

static int wait_for_coordinator(Loop *l, int kind, int64_t about, PyObject *given) {
    return push_waiting(&l->inbox, (Entry){0.0, ++l->inbox.sequence, about, 0, kind, given});
}

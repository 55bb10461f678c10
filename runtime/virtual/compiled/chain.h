/* What iterations of workers with servers need: the job's models, its workers, and the ways of their messages. */

#define NUM_STAGES 13 /* see stages.h */

typedef struct {
    PyObject_HEAD
    TaskWork *work;
    Clock *clock;
    PyObject *queues; /* of the servers that hold parameters, by place: a list */
    PyObject *names;  /* worker -> its name on the machines */
    PyObject *jitter, *messages, *profiles, *cores, *idle_since_s, *under_way; /* by worker, as in WorkerModel */
    PyObject *workers;                                              /* worker -> Worker */
    PyObject *costs, *by_stage; /* what it was made from */
    PyObject *ended;                                                /* called at the end, with the time */
    PyObject *timings, *arrived; /* the classes of an iteration's times and of the coordinator's input */
    PyObject *tell;              /* that takes the input; NULL: ended is called */
    PyObject *loop, *result;     /* a capsule of the loop that decides, and what its gradients say; or None */
    PyObject *detours[NUM_STAGES]; /* what carries out a stage in place of the kernel; NULL: nothing does */
    Hosts hosts;
    Prices prices;
    double model_bytes, copy_s, send_s, uses_cores;
    char shares_memory;
} Chain;

/* What does not change from one iteration of a worker to the next. */
typedef struct {
    PyObject_HEAD
    PyObject *number, *name;
    Task *task;
    Way **ways; /* from and to the server at every place, or NULL */
    Py_ssize_t num_ways;
} Worker;

typedef struct {
    PyObject_HEAD
    Chain *chain;
    Worker *worker;
    PyObject *order, *result;
    char gone;                /* void: its worker is lost */
    int stage;                /* see stages.h */
    long long place, grad_id; /* the first in a loop that decides; the second where it has given the order */
    double sent_s, delay_s, slowdown_frac;                         /* of its order */
    double begun_s, amount;                                        /* of its stage, and what its worker does in it */
#define TIME(name) double name;
    WORK_TIMES(TIME)
#undef TIME
    double loaded_s, receiving_since_s, updating_s, factor, message_factor, computed_s, since_s, charged_s;
    Py_ssize_t samples, accum, missing, receiving;
} Iteration;

static Kind ChainKind, WorkerKind, IterationKind;

static inline double positive(double seconds) { return seconds > 0.0 ? seconds : 0.0; }

/* To the machines, and back to the job. */
static inline int go_there(Chain *self) { return change_side(self->clock, self->work->clock); }

static inline int come_back(Chain *self) { return change_side(self->work->clock, self->clock); }

/* What a dict holds for a key, borrowed; NULL with a KeyError. */
static PyObject *item_of(PyObject *dict, PyObject *key) {
    PyObject *found = PyDict_GetItemWithError(dict, key);
    if (!found && !PyErr_Occurred())
        PyErr_SetObject(PyExc_KeyError, key);
    return found;
}

/* The queue of a server, borrowed; NULL with an exception. */
static Queue *queue_at(Chain *self, Py_ssize_t place) {
    PyObject *found = PyList_GetItem(self->queues, place);
    if (found && !Py_IS_TYPE(found, &QueueKind.type)) {
        PyErr_SetString(PyExc_TypeError, "a compiled chain needs compiled queues");
        return NULL;
    }
    return (Queue *)found;
}

/* The way between a worker and the server at a place, either way, borrowed. */
static Way *way_between(Chain *self, Worker *worker, Py_ssize_t place, int to_server) {
    Queue *server = queue_at(self, place);
    Py_ssize_t at = 2 * place + to_server;
    if (!server)
        return NULL;
    if (at >= worker->num_ways) {
        Py_ssize_t count = 2 * PyList_GET_SIZE(self->queues);
        if (widen(&worker->ways, count))
            return NULL;
        while (worker->num_ways < count)
            worker->ways[worker->num_ways++] = NULL;
    }
    Way *way = worker->ways[at];
    if (way && way->generation == self->work->generation && PyTuple_GET_ITEM(way->path, to_server) == server->there)
        return way;
    PyObject *path = to_server ? PyTuple_Pack(2, worker->name, server->there)
                               : PyTuple_Pack(2, server->there, worker->name);
    way = path ? find_way(self->work, path) : NULL;
    Py_XDECREF(path);
    if (way)
        Py_XSETREF(worker->ways[at], (Way *)Py_NewRef(way));
    return way;
}

/* Work at either end of a message, per byte. */
static double price_of(const Chain *self, const Way *way) {
    return is_apart(way) ? self->prices.carry_per_byte_s : self->prices.within_per_byte_s;
}

/* Core-seconds of sending a gradient; negative with an exception. */
static double send_s(Chain *self, Worker *worker) {
    double carry_s = 0.0;
    if (self->prices.within_per_byte_s == self->prices.carry_per_byte_s || self->shares_memory)
        return self->send_s;
    for (Py_ssize_t place = 0; place < PyList_GET_SIZE(self->queues); place++) {
        Way *way = way_between(self, worker, place, 1);
        if (!way)
            return -1.0;
        carry_s += price_of(self, way) * queue_at(self, place)->num_bytes;
    }
    return self->copy_s + carry_s;
}

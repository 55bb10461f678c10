/* What tasks do on machines: they work, sleep and send messages, unless they are paused.
 *
 * All that a task does at a time has its weight together: it is one thread among others. A message between machines
 * interrupts all tasks but the two at its ends, evenly during its transfer. Who works meanwhile owes that, in proportion
 * to the part of the time in which it had a core, and its next work is longer by it. */

#define THREAD_CORES 1.0

typedef struct Message Message;

typedef struct {
    PyObject_HEAD
    PyObject *name, *cores;
    PyObject *accounts;    /* bytes: the one of its name */
    PyObject *set;         /* bytes: the resources of its cores, as of a generation of their names */
    int64_t set_generation;
    Activity *work;        /* that it does now, apart from messages */
    Activity *beside;      /* what another thread of it does at the same time */
    Activity *polls;       /* that it waits with, which is nobody's work */
    PyObject *waiting;                 /* a list, or NULL: what it does when it continues */
    double uses_cores, weight;         /* the latter of all that it does together */
    double own_s, owed_s; /* interruptions by its messages that are over; by others', which make its next work longer */
    double charged_s;     /* all that it has ever owed */
    double poll_cores, polled_s; /* cores on which it polls whenever it does not work; core-seconds of that so far */
    int64_t life;
    char paused, is_here;
    Message *first, *last; /* that are dropped with it, in the order of their starts */
} Task;

typedef struct {
    PyObject_HEAD
    Clock *clock;
    Sharing *processors, *links;
    PyObject *way_of;
    PyObject *tasks; /* name -> Task */
    PyObject *ways;  /* path -> Way */
    int64_t generation; /* of the ways */
    double interrupted_s; /* for how long messages between machines whose transfer is over have interrupted others */
    Message *first, *last; /* those that are transferred now, in the order of their starts; of messages' lists */
} TaskWork;

/* What a message uses on a path, and what is in progress there. */
typedef struct {
    PyObject_HEAD
    PyObject *path, *links, *accounts; /* the last are bytes, none between tasks of one machine */
    PyObject *set;                     /* bytes: the links' resources, as of a generation of their names */
    int64_t set_generation, generation;
    double latency_s;
    Task *ends[2];
    Activity *flow, *carries[2];
} Way;

/* A message on its way, as long as its transfer or the work at one of its ends is not done. */
struct Message {
    PyObject_HEAD
    TaskWork *work;
    Task *task; /* that it is dropped with; NULL: it is no longer on its way */
    Way *way;
    PyObject *then;
    double latency_s;
    unsigned open; /* bits: the transfer, the work of the sender and of the receiver */
    double num_bytes, interrupt_s; /* for how long all of it interrupts others, evenly during its transfer; 0: not */
    Message *before, *after;
    Message *earlier, *later; /* that interrupt others now */
};

static Kind TaskKind, WayKind, MessageKind, TaskWorkKind;

/* ---- who works ------------------------------------------------------------------------------------------------- */

/* A task, borrowed; NULL with a KeyError. */
static Task *find_task(TaskWork *self, PyObject *name) {
    PyObject *found = PyDict_GetItemWithError(self->tasks, name);
    if (!found && !PyErr_Occurred())
        PyErr_SetObject(PyExc_KeyError, name);
    return (Task *)found;
}

static void forget_ways(TaskWork *self) {
    PyDict_Clear(self->ways);
    self->generation++;
}

/* The resources of a task's cores or of a way's links, found again when their names may mean others; borrowed. */
static PyObject *set_of(Sharing *sharing, PyObject *names, PyObject **set, int64_t *generation) {
    Fluid *fluid = sharing->fluid;
    if (*set && *generation == fluid->generation)
        return *set;
    PyObject *found = find_set(fluid, names);
    if (found) {
        Py_XSETREF(*set, Py_NewRef(found));
        *generation = fluid->generation;
    }
    return found;
}

static int admit_task(TaskWork *self, PyObject *name, double uses_cores, PyObject *cores) {
    Task *one = instance_of(&TaskKind);
    if (!one)
        return -1;
    one->name = Py_NewRef(name);
    one->cores = Py_NewRef(cores);
    one->uses_cores = uses_cores;
    one->weight = 1.0;
    one->is_here = 1;
    PyObject *names = PyTuple_Pack(1, name);
    int failed = !names || !(one->accounts = Py_XNewRef(find_accounts(self->processors, names))) ||
                 PyDict_SetItem(self->tasks, name, (PyObject *)one);
    Py_XDECREF(names);
    Py_DECREF(one);
    forget_ways(self);
    return failed ? -1 : 0;
}

static void append_message(Task *task, Message *one) {
    one->before = task->last;
    one->after = NULL;
    *(task->last ? &task->last->after : &task->first) = one;
    task->last = (Message *)Py_NewRef(one);
}

/* It is no longer on its way. */
static void take_off(Message *one) {
    Task *task = one->task;
    *(one->before ? &one->before->after : &task->first) = one->after;
    *(one->after ? &one->after->before : &task->last) = one->before;
    one->task = NULL;
    Py_DECREF(task);
    Py_DECREF(one);
}

/* For how long a message has interrupted others so far. */
static double so_far_s(const TaskWork *self, const Message *one) {
    double left = one->way->flow ? left_of(one->way->flow, self->clock->now) : 0.0;
    return one->interrupt_s * (1.0 - left / one->num_bytes);
}

/* For how long messages of which a task is no end have interrupted whatever worked so far. */
static double interrupted_by_others_s(const TaskWork *self, const Task *task) {
    double interrupted_s = self->interrupted_s - task->own_s;
    for (const Message *one = self->first; one; one = one->later)
        if (one->way->ends[0] != task && one->way->ends[1] != task)
            interrupted_s += so_far_s(self, one);
    return interrupted_s;
}

static void begin_interrupting(TaskWork *self, Message *one) {
    one->earlier = self->last;
    one->later = NULL;
    *(self->last ? &self->last->later : &self->first) = one;
    self->last = one;
}

/* The transfer of a message, if it is one that interrupts, is over now. */
static void end_interrupting(TaskWork *self, Message *one) {
    if (!one->interrupt_s)
        return;
    double seconds = so_far_s(self, one);
    *(one->earlier ? &one->earlier->later : &self->first) = one->later;
    *(one->later ? &one->later->earlier : &self->last) = one->earlier;
    one->interrupt_s = 0.0;
    self->interrupted_s += seconds;
    for (int end = 0; end < 2; end++)
        one->way->ends[end]->own_s += seconds;
}

static int drop_message(TaskWork *self, Message *one) {
    Py_INCREF(one);
    unsigned open = one->open;
    end_interrupting(self, one);
    take_off(one);
    int failed = stop_slot(self->links, &one->way->flow);
    for (int end = 0; !failed && end < 2; end++)
        if (open & 2u << end)
            failed = stop_slot(self->processors, &one->way->carries[end]);
    Py_DECREF(one);
    return failed;
}

static Account *account_of_task(const Task *task) { return *(Account **)PyBytes_AS_STRING(task->accounts); }

/* Everything that a task does has its weight together. */
static int divide_work(TaskWork *self, Task *task) {
    return divide(self->processors, account_of_task(task), task->weight);
}

/* ---- waiting with a processor ------------------------------------------------------------------------------------- */

#define ENDLESS_S 1e6 /* core-seconds: more would round what is used of it, and who waits so long polls no more */

static int run_nothing(Step *step) { return 0; }

/* Poll, if it does so while it waits and has no work of its own: its messages are handled beside that. */
static int poll_on(TaskWork *self, Task *task) {
    if (!task->poll_cores || task->work || task->beside || task->polls)
        return 0;
    PyObject *set = set_of(self->processors, task->cores, &task->set, &task->set_generation);
    PyObject *nothing = set ? (PyObject *)make_step(run_nothing, self, NULL, NULL, 0.0, 0) : NULL;
    int failed = !nothing || begin_on(self->processors, (PyObject *)task, &task->polls, ENDLESS_S, set, nothing,
                                      task->accounts, task->poll_cores);
    Py_XDECREF(nothing);
    return failed || divide_work(self, task) ? -1 : 0;
}

/* Poll no more for now; who else works has the weight of that. */
static int pause_polling(TaskWork *self, Task *task) {
    if (!task->polls)
        return 0;
    if (advance(self->processors->fluid, self->clock->now))
        return -1;
    task->polled_s += ENDLESS_S - left_of(task->polls, self->clock->now);
    return stop_slot(self->processors, &task->polls) || divide_work(self, task) ? -1 : 0;
}

/* Poll on up to so many cores from now on, whenever it does not work. */
static int begin_polling(TaskWork *self, Task *task, double cores) {
    task->poll_cores = cores;
    return poll_on(self, task);
}

static int stop_polling(TaskWork *self, Task *task) {
    task->poll_cores = 0.0;
    return pause_polling(self, task);
}

/* Core-seconds that it has polled for since they were last taken. */
static double take_polled_s(Task *task) {
    double polled_s = task->polled_s;
    task->polled_s = 0.0;
    return polled_s;
}

/* Drop a message; who carried it at its other end has its weight for what is left. */
static int forget_message(TaskWork *self, Task *task, Message *message) {
    Way *way = (Way *)Py_NewRef(message->way);
    int failed = drop_message(self, message);
    for (int end = 0; !failed && end < 2; end++) {
        Task *other = way->ends[end];
        if (other && other != task && other->is_here)
            failed = divide_work(self, other);
    }
    Py_DECREF(way);
    return failed;
}

static int forget_task(TaskWork *self, Task *task) {
    task->life++;
    task->owed_s = 0.0;
    Py_CLEAR(task->waiting);
    int failed = stop_polling(self, task) || stop_slot(self->processors, &task->work) ||
                 stop_slot(self->processors, &task->beside);
    task->polled_s = 0.0;
    while (!failed && task->first)
        failed = forget_message(self, task, task->first);
    return failed;
}

static int weigh_task(TaskWork *self, Task *task, double weight) {
    task->weight = weight;
    return divide_work(self, task);
}

static int resume_task(Task *task) {
    PyObject *waiting = task->waiting;
    int failed = 0;
    task->waiting = NULL;
    task->paused = 0;
    for (Py_ssize_t i = 0; waiting && !failed && i < PyList_GET_SIZE(waiting); i++)
        failed = go_on(PyList_GET_ITEM(waiting, i));
    Py_XDECREF(waiting);
    return failed;
}

/* ---- what they do ---------------------------------------------------------------------------------------------- */

/* Go on now, or when the task is no longer paused. */
static int when_awake(Task *task, PyObject *then) {
    if (!task->paused || !task->is_here)
        return go_on(then);
    if (!task->waiting && !(task->waiting = PyList_New(0)))
        return -1;
    return PyList_Append(task->waiting, then);
}

static int run_when_awake(Step *step) { return when_awake((Task *)step->owner, step->one); }

static int run_due(Step *step) { return ((Task *)step->owner)->life == step->n ? go_on(step->one) : 0; }

static int run_due_awake(Step *step) {
    Task *task = (Task *)step->owner;
    return task->life == step->n ? when_awake(task, step->one) : 0;
}

/* Take a step so many seconds later, unless the task is lost until then. */
static int later(TaskWork *self, Task *task, double seconds, Run run, PyObject *then) {
    Step *due = make_step(run, task, then, NULL, 0.0, task->life);
    int failed = !due || act_at(self->clock, self->clock->now + seconds, MACHINE, (PyObject *)due, NULL);
    Py_XDECREF(due);
    return failed ? -1 : 0;
}

static int sleep_task(TaskWork *self, Task *task, double seconds, PyObject *then) {
    return later(self, task, seconds, run_due_awake, then);
}

static int run_ended(Step *step) {
    TaskWork *self = (TaskWork *)step->owner;
    Task *task = (Task *)step->other;
    double now = self->clock->now, interrupted_s = interrupted_by_others_s(self, task) - step->q;
    if (interrupted_s > 0.0 && now > step->r) {
        double owed_s = step->s * (interrupted_s / (now - step->r));
        task->owed_s += owed_s;
        task->charged_s += owed_s;
    }
    if (go_on(step->one))
        return -1;
    return task->is_here ? poll_on(self, task) || divide_work(self, task) : 0;
}

/* Use the processor; all that a task does has its weight together, and interruptions meanwhile are owed. */
static int use_cores(TaskWork *self, Task *task, PyObject *owner, Activity **slot, double core_seconds, PyObject *then,
                     double limit) {
    PyObject *set = set_of(self->processors, task->cores, &task->set, &task->set_generation);
    if (!set)
        return -1;
    core_seconds += task->owed_s;
    task->owed_s = 0.0;
    Step *ended = make_step(run_ended, self, then, task, core_seconds, 0);
    if (ended) {
        ended->r = self->clock->now;
        ended->q = interrupted_by_others_s(self, task);
    }
    int failed =
        !ended || begin_on(self->processors, owner, slot, core_seconds, set, (PyObject *)ended, task->accounts,
                           limit);
    Py_XDECREF(ended);
    return failed ? -1 : divide_work(self, task);
}

/* Work at up to so many cores, which matter only where the task's own resource has more. */
static int work_at(TaskWork *self, Task *task, Activity **slot, double core_seconds, double cores, PyObject *then) {
    if (!core_seconds)
        return when_awake(task, then);
    if (pause_polling(self, task))
        return -1;
    double own = task->uses_cores > THREAD_CORES ? task->uses_cores : THREAD_CORES;
    PyObject *awake = (PyObject *)make_step(run_when_awake, task, then, NULL, 0.0, 0);
    int failed = !awake || use_cores(self, task, (PyObject *)task, slot, core_seconds, awake,
                                     cores < own ? cores : INFINITY);
    Py_XDECREF(awake);
    return failed ? -1 : 0;
}

static int work_task(TaskWork *self, Task *task, double core_seconds, PyObject *then) {
    return work_at(self, task, &task->work, core_seconds, THREAD_CORES, then);
}

static int work_beside(TaskWork *self, Task *task, double core_seconds, PyObject *then) {
    return work_at(self, task, &task->beside, core_seconds, THREAD_CORES, then);
}

static int compute_task(TaskWork *self, Task *task, double seconds, PyObject *then) {
    return work_at(self, task, &task->work, seconds * task->uses_cores, task->uses_cores, then);
}

/* ---- messages -------------------------------------------------------------------------------------------------- */

static Way *make_way(TaskWork *self, PyObject *path) {
    PyObject *about = PyObject_CallOneArg(self->way_of, path), *links, *accounts, *found;
    double latency_s;
    Way *one = NULL;
    if (about && PyArg_ParseTuple(about, "O!O!d", &PyTuple_Type, &links, &PyTuple_Type, &accounts, &latency_s) &&
        PyTuple_GET_SIZE(path) == 2 && (found = find_accounts(self->links, accounts)))
        one = instance_of(&WayKind);
    if (one) {
        one->path = Py_NewRef(path);
        one->links = Py_NewRef(links);
        one->accounts = Py_NewRef(found);
        one->latency_s = latency_s;
        one->generation = self->generation;
    } else if (about && !PyErr_Occurred()) {
        PyErr_SetString(PyExc_ValueError, "a path has two ends");
    }
    Py_XDECREF(about);
    return one;
}

/* What a message uses on a path, borrowed. */
static Way *find_way(TaskWork *self, PyObject *path) {
    PyObject *found = PyDict_GetItemWithError(self->ways, path);
    if (found || PyErr_Occurred())
        return (Way *)found;
    Way *one = make_way(self, path);
    int failed = !one || PyDict_SetItem(self->ways, path, (PyObject *)one);
    Py_XDECREF(one); /* the dict holds it */
    return failed ? NULL : one;
}

/* The task at an end of a way, borrowed; NULL with a KeyError if it has left. */
static Task *task_at(TaskWork *self, Way *way, int end) {
    Task *task = way->ends[end];
    if (task && task->is_here)
        return task;
    task = find_task(self, PyTuple_GET_ITEM(way->path, end));
    if (task)
        Py_XSETREF(way->ends[end], (Task *)Py_NewRef(task));
    return task;
}

static int run_part(Step *step) {
    Message *one = (Message *)step->owner;
    if (!step->n && one->task)
        end_interrupting(one->work, one);
    one->open &= ~(1u << step->n);
    if (one->open || !one->task)
        return 0;
    Task *task = (Task *)Py_NewRef(one->task);
    take_off(one); /* the step holds it */
    int failed = later(one->work, task, one->latency_s, run_due, one->then);
    Py_DECREF(task);
    return failed;
}

static int carry_at(TaskWork *self, Message *message, int end, double carry_s) {
    Way *way = message->way;
    Task *task = task_at(self, way, end);
    PyObject *done = task ? (PyObject *)make_step(run_part, message, NULL, NULL, 0.0, 1 + end) : NULL;
    if (!done)
        return -1;
    double limit = task->uses_cores > THREAD_CORES ? THREAD_CORES : INFINITY;
    int failed = use_cores(self, task, (PyObject *)way, &way->carries[end], carry_s, done, limit);
    Py_DECREF(done);
    return failed;
}

static int transfer(TaskWork *self, Message *message, double num_bytes) {
    Way *way = message->way;
    PyObject *set = set_of(self->links, way->links, &way->set, &way->set_generation);
    PyObject *done = set ? (PyObject *)make_step(run_part, message, NULL, NULL, 0.0, 0) : NULL;
    int failed = !done || begin_on(self->links, (PyObject *)way, &way->flow, num_bytes, set, done, way->accounts,
                                   INFINITY);
    Py_XDECREF(done);
    return failed ? -1 : 0;
}

static int is_apart(const Way *way) { return PyBytes_GET_SIZE(way->accounts) > 0; }

/* It interrupts all tasks but the two at its ends from now on. */
static int interrupt_others(TaskWork *self, Message *one, double seconds) {
    if (!task_at(self, one->way, 0) || !task_at(self, one->way, 1))
        return -1;
    one->interrupt_s = seconds;
    begin_interrupting(self, one);
    return 0;
}

/* Send a message on a way; it has arrived when its transfer and the work at either end are done. */
static int send_on(TaskWork *self, Task *task, Way *way, double num_bytes, double latency_s, PyObject *then,
                   double carry_s, double interrupt_s) {
    Message *one = instance_of(&MessageKind);
    if (!one)
        return -1;
    one->work = (TaskWork *)Py_NewRef(self);
    one->task = (Task *)Py_NewRef(task);
    one->way = (Way *)Py_NewRef(way);
    one->then = Py_NewRef(then);
    one->latency_s = latency_s + way->latency_s;
    one->open = carry_s ? 7 : 1;
    one->num_bytes = num_bytes;
    append_message(task, one);
    int failed = (interrupt_s && is_apart(way) && interrupt_others(self, one, interrupt_s)) ||
                 transfer(self, one, num_bytes);
    for (int end = 0; !failed && carry_s && end < 2; end++)
        failed = carry_at(self, one, end, carry_s);
    Py_DECREF(one);
    return failed;
}

/* Send a message along a path. */
static int send_message(TaskWork *self, Task *task, PyObject *path, double num_bytes, double latency_s, PyObject *then,
                        double carry_s, double within_s, double interrupt_s) {
    Way *way = find_way(self, path);
    return way ? send_on(self, task, way, num_bytes, latency_s, then, is_apart(way) ? carry_s : within_s, interrupt_s)
               : -1;
}

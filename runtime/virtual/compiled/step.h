/* What happens next, as an object: a C function with what it needs. Python can call it like any other callable. */

typedef struct Step Step;
typedef int (*Run)(Step *);

struct Step {
    PyObject_HEAD
    Run run;
    PyObject *owner, *one, *other; /* what it acts on; the last two may be NULL */
    double s, r, q;
    Py_ssize_t n;
};

static int python_was_called; /* whether anything but compiled steps ran since this was set to 0 */

#define SPARE_STEPS 512
static Step *spare_steps[SPARE_STEPS];
static int num_spare_steps;

static PyTypeObject StepType;

static Step *make_step(Run run, void *owner, void *one, void *other, double s, Py_ssize_t n) {
    Step *self;
    if (num_spare_steps) {
        self = spare_steps[--num_spare_steps];
        (void)PyObject_Init((PyObject *)self, &StepType);
    } else if (!(self = PyObject_GC_New(Step, &StepType))) {
        return NULL;
    }
    self->run = run;
    self->owner = Py_NewRef(owner);
    self->one = Py_XNewRef(one);
    self->other = Py_XNewRef(other);
    self->s = s;
    self->r = self->q = 0.0;
    self->n = n;
    PyObject_GC_Track(self);
    return self;
}

static int step_clear(Step *self) {
    Py_CLEAR(self->owner);
    Py_CLEAR(self->one);
    Py_CLEAR(self->other);
    return 0;
}

static void step_dealloc(Step *self) {
    PyObject_GC_UnTrack(self);
    step_clear(self);
    if (num_spare_steps < SPARE_STEPS)
        spare_steps[num_spare_steps++] = self;
    else
        PyObject_GC_Del(self);
}

static int step_traverse(Step *self, visitproc visit, void *arg) {
    Py_VISIT(self->owner);
    Py_VISIT(self->one);
    Py_VISIT(self->other);
    return 0;
}

/* Go on with a step or with any other callable. */
static int go_on(PyObject *then) {
    if (Py_IS_TYPE(then, &StepType)) {
        Step *step = (Step *)then;
        return step->owner ? step->run(step) : 0; /* without an owner it was cleared with a cycle */
    }
    python_was_called = 1;
    PyObject *result = PyObject_CallNoArgs(then);
    Py_XDECREF(result);
    return result ? 0 : -1;
}

static PyObject *step_call(PyObject *self, PyObject *args, PyObject *kwargs) {
    Py_INCREF(self);
    int failed = go_on(self);
    Py_DECREF(self);
    return none_unless(failed);
}

static PyTypeObject StepType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "runtime.virtual.compiled._hosts.Step",
    .tp_basicsize = sizeof(Step),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .tp_doc = "What happens next.",
    .tp_traverse = (traverseproc)step_traverse,
    .tp_clear = (inquiry)step_clear,
    .tp_dealloc = (destructor)step_dealloc,
    .tp_call = step_call,
};

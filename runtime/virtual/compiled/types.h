/* Types as tables: which objects an instance holds, so how it is visited and freed, and from what it is made. */

#include <stddef.h>
#include <structmember.h>

typedef struct {
    PyTypeObject type;
    const Py_ssize_t *refs;                         /* where an instance holds objects; ends with 0 */
    int (*visit)(PyObject *, visitproc, void *); /* what it holds elsewhere; NULL: nothing */
    void (*release)(PyObject *);                    /* lets go of that; NULL: as clear does, if there is such */
} Kind;

static int kind_traverse(PyObject *self, visitproc visit, void *arg) {
    const Kind *kind = (const Kind *)Py_TYPE(self);
    for (const Py_ssize_t *at = kind->refs; *at; at++)
        Py_VISIT(*(PyObject **)((char *)self + *at));
    return kind->visit ? kind->visit(self, visit, arg) : 0;
}

static void kind_dealloc(PyObject *self) {
    const Kind *kind = (const Kind *)Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    if (kind->release)
        kind->release(self);
    else if (kind->type.tp_clear)
        kind->type.tp_clear(self);
    for (const Py_ssize_t *at = kind->refs; *at; at++)
        Py_CLEAR(*(PyObject **)((char *)self + *at));
    PyObject_GC_Del(self);
}

/* The head of a type; without more it cannot be made in Python. */
#define KIND(Type, text)                                                                                               \
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "runtime.virtual.compiled._hosts." #Type, .tp_basicsize = sizeof(Type),   \
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC, .tp_doc = text, .tp_traverse = kind_traverse,                 \
    .tp_dealloc = kind_dealloc

#define REFS(...) .refs = (const Py_ssize_t[]){__VA_ARGS__, 0}

/* A new instance, all zeros. */
static void *instance_of(Kind *kind) { return PyType_GenericAlloc(&kind->type, 0); }

/* ---- what instances are made from ------------------------------------------------------------------------------ */

typedef struct {
    const char *word;
    char form; /* o: an object, d: a double, n: a number, p: whether it is true */
    Py_ssize_t at;
    PyTypeObject *type; /* of an object; NULL: any */
} Field;

static int set_field(PyObject *self, const Field *field, PyObject *given) {
    void *place = (char *)self + field->at;
    if (field->form == 'd')
        *(double *)place = PyFloat_AsDouble(given);
    else if (field->form == 'n')
        *(Py_ssize_t *)place = PyLong_AsSsize_t(given);
    else if (field->form == 'p')
        *(char *)place = PyObject_IsTrue(given);
    else if (!field->type || PyObject_TypeCheck(given, field->type))
        *(PyObject **)place = Py_NewRef(given);
    else
        PyErr_Format(PyExc_TypeError, "%s: must be a compiled %s", field->word, field->type->tp_name);
    return PyErr_Occurred() ? -1 : 0;
}

/* A new instance with all of these fields, each given by place or by name. */
static void *make_instance(PyTypeObject *type, const Field *fields, PyObject *args, PyObject *kwargs) {
    PyObject *self = PyType_GenericAlloc(type, 0);
    for (Py_ssize_t i = 0; self && fields[i].word; i++) {
        PyObject *given = i < PyTuple_GET_SIZE(args) ? PyTuple_GET_ITEM(args, i)
                          : kwargs                   ? PyDict_GetItemString(kwargs, fields[i].word)
                                                     : NULL;
        if (!given)
            PyErr_Format(PyExc_TypeError, "%s: %s is missing", type->tp_name, fields[i].word);
        if (!given || set_field(self, &fields[i], given))
            Py_CLEAR(self);
    }
    return self;
}

static PyObject *none_unless(int failed) {
    if (failed)
        return NULL;
    Py_RETURN_NONE;
}

/* The memory of jitter: the compiled twin of the loop in runtime/virtual/tasks/jitter.py. */

#define PY_SSIZE_T_CLEAN
#include <Python.h>

/* level = rho * level + value, for one value after another, which it takes the place of; returns the last level. */
static PyObject *remember(PyObject *module, PyObject *args) {
    Py_buffer values;
    double rho, level;
    if (!PyArg_ParseTuple(args, "w*dd", &values, &rho, &level))
        return NULL;
    double *at = values.buf;
    for (Py_ssize_t left = values.len / (Py_ssize_t)sizeof *at; left > 0; left--, at++)
        *at = level = rho * level + *at;
    PyBuffer_Release(&values);
    return PyFloat_FromDouble(level);
}

static PyMethodDef methods[] = {
    {"remember", remember, METH_VARARGS, "Make levels of float64 values, in place; the last one."}, {NULL}};

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, .m_name = "_jitter", .m_size = -1, .m_methods = methods};

PyMODINIT_FUNC PyInit__jitter(void) { return PyModule_Create(&definition); }

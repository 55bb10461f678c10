// A thread that sleeps and wakes, for ever, without the interpreter: see ticks.py.

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <time.h>

#define SECOND_NS 1000000000LL

static long long now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * SECOND_NS + now.tv_nsec;
}

static PyObject *wake(PyObject *module, PyObject *args) {
    Py_buffer stop;
    long long period_ns;
    if (!PyArg_ParseTuple(args, "y*L", &stop, &period_ns))
        return NULL;
    if (stop.len < 1 || period_ns < 1) {
        PyBuffer_Release(&stop);
        PyErr_SetString(PyExc_ValueError, "a byte that stops, and a period above 0");
        return NULL;
    }
    const volatile char *stopped = stop.buf;
    Py_BEGIN_ALLOW_THREADS;
    long long next_ns = now_ns();
    while (!*stopped) {
        next_ns += period_ns;
        const long long late_ns = now_ns() - next_ns;
        if (late_ns > 0)
            next_ns += late_ns; // what was missed is not made up for
        const struct timespec until = {.tv_sec = next_ns / SECOND_NS, .tv_nsec = next_ns % SECOND_NS};
        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
    }
    Py_END_ALLOW_THREADS;
    PyBuffer_Release(&stop);
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    {"wake", wake, METH_VARARGS, "Wake up every so many nanoseconds, until the byte is not 0."}, {NULL}};

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, .m_name = "_ticks", .m_size = -1, .m_methods = methods};

PyMODINIT_FUNC PyInit__ticks(void) { return PyModule_Create(&definition); }

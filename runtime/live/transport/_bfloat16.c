/* Floats of 16 bits: the compiled twin of encode and decode in bfloat16.py. */

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("O3") /* loops become vector instructions */
#endif

static void round_all(const uint32_t *restrict from, uint16_t *restrict to, Py_ssize_t count) {
    for (Py_ssize_t i = 0; i < count; i++) {
        const uint32_t bits = from[i], rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
        to[i] = (bits & 0x7fffffff) > 0x7f800000 ? bits >> 16 | 0x40 : rounded;
    }
}

static void widen_all(const uint16_t *restrict from, uint32_t *restrict to, Py_ssize_t count) {
    for (Py_ssize_t i = 0; i < count; i++)
        to[i] = (uint32_t)from[i] << 16;
}

static PyObject *convert(PyObject *args, int encodes) {
    Py_buffer from, to;
    if (!PyArg_ParseTuple(args, "y*w*", &from, &to))
        return NULL;
    const Py_ssize_t count = (encodes ? to : from).len / 2;
    const int fits = (encodes ? from : to).len == count * 4;
    if (fits) {
        Py_BEGIN_ALLOW_THREADS;
        if (encodes)
            round_all(from.buf, to.buf, count);
        else
            widen_all(from.buf, to.buf, count);
        Py_END_ALLOW_THREADS;
    }
    PyBuffer_Release(&from);
    PyBuffer_Release(&to);
    if (fits)
        Py_RETURN_NONE;
    PyErr_SetString(PyExc_ValueError, "as many bfloat16 as floats");
    return NULL;
}

static PyObject *encode(PyObject *module, PyObject *args) { return convert(args, 1); }

static PyObject *decode(PyObject *module, PyObject *args) { return convert(args, 0); }

static PyMethodDef methods[] = {{"encode", encode, METH_VARARGS, "Round float32 to the upper 16 bits of each."},
                                {"decode", decode, METH_VARARGS, "Upper 16 bits to float32."},
                                {NULL}};

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, .m_name = "_bfloat16", .m_size = -1, .m_methods = methods};

PyMODINIT_FUNC PyInit__bfloat16(void) { return PyModule_Create(&definition); }

/* Updates of rules that add the combined gradient to the parameters: the compiled twin of the loop over blocks in
   optimizers.py. Every addition and product is rounded by itself, in the same order, so the bits are the same. */

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <sched.h>
#include <stdint.h>
#include <string.h>

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("O3") /* loops over blocks become vector instructions; that changes no rounding */
#endif

enum { BLOCK = 1024, SHARE = 32 * BLOCK };
/* Floats: what the first cache holds with its inputs; what a thread takes at once. */

typedef struct {
    float *out;
    const float *params;
    const float *const *grads;
    const float *factors;
    Py_ssize_t num_grads, num_elements;
    int uniform;
} Update;

/* Whoever reads a block writes the same one: vectors that are equal are no obstacle to vector instructions. */
#if defined(__GNUC__) && !defined(__clang__)
#define BY_ELEMENT _Pragma("GCC ivdep")
#else
#define BY_ELEMENT
#endif

/* out = params + factor * (g0 + g1 + ...), in as few passes over the block as there are additions between gradients */
static void add_uniform(const Update *of, Py_ssize_t at, Py_ssize_t count, float *out) {
    const float *params = of->params + at, *sum = of->grads[0] + at, factor = of->factors[0];
    float partial[BLOCK];
    for (Py_ssize_t k = 1; k < of->num_grads; k++) {
        const float *grad = of->grads[k] + at;
        BY_ELEMENT for (Py_ssize_t i = 0; i < count; i++) partial[i] = sum[i] + grad[i];
        sum = partial;
    }
    BY_ELEMENT for (Py_ssize_t i = 0; i < count; i++) out[i] = params[i] + sum[i] * factor;
}

/* out = params + (f0 * g0 + f1 * g1 + ...) */
static void add_weighted(const Update *of, Py_ssize_t at, Py_ssize_t count, float *out) {
    const float *params = of->params + at;
    float sum[BLOCK];
    for (Py_ssize_t k = 0; k < of->num_grads; k++) {
        const float *grad = of->grads[k] + at, factor = of->factors[k];
        if (k == 0)
            for (Py_ssize_t i = 0; i < count; i++)
                sum[i] = grad[i] * factor;
        else
            for (Py_ssize_t i = 0; i < count; i++)
                sum[i] += grad[i] * factor;
    }
    BY_ELEMENT for (Py_ssize_t i = 0; i < count; i++) out[i] = params[i] + sum[i];
}

static void update(const Update *of, Py_ssize_t from, Py_ssize_t to) {
    for (Py_ssize_t at = from; at < to; at += BLOCK) {
        const Py_ssize_t count = to - at < BLOCK ? to - at : BLOCK;
        (of->uniform ? add_uniform : add_weighted)(of, at, count, of->out + at); /* out may be params */
    }
}

/* Take shares, which `counts` numbers, until none is left; whoever waits does so until all that were taken are done.
   A thread that never got a processor holds nobody up: it has taken nothing. */
static void take_shares(const Update *of, int64_t *counts, int waits) {
    const int64_t shares = (of->num_elements + SHARE - 1) / SHARE;
    int64_t share;
    while ((share = __atomic_fetch_add(&counts[0], 1, __ATOMIC_RELAXED)) < shares) {
        const Py_ssize_t from = share * SHARE, to = from + SHARE;
        update(of, from, to < of->num_elements ? to : of->num_elements);
        __atomic_fetch_add(&counts[1], 1, __ATOMIC_RELEASE);
    }
    while (waits && __atomic_load_n(&counts[1], __ATOMIC_ACQUIRE) < shares)
        sched_yield();
}

static const char *refused(const Update *of, const Py_buffer *views, Py_ssize_t num_views, Py_ssize_t counts_bytes) {
    for (Py_ssize_t k = 1; k < num_views; k++)
        if (views[k].len != views[0].len)
            return "vectors of different lengths";
    if (of->num_grads < 1 || counts_bytes < 2 * (Py_ssize_t)sizeof(int64_t))
        return "no gradients, or no counts";
    return NULL;
}

/* add(out, params, grads, factors, uniform, counts, waits) */
static PyObject *add(PyObject *module, PyObject *args) {
    PyObject *out, *params, *grads;
    Py_buffer factors = {0}, counts = {0};
    int uniform, waits;
    if (!PyArg_ParseTuple(args, "OOO!y*pw*p", &out, &params, &PyList_Type, &grads, &factors, &uniform, &counts, &waits))
        return NULL;
    const Py_ssize_t num_grads = PyList_GET_SIZE(grads), num_views = num_grads + 2;
    Py_buffer *views = NULL;
    const float **vectors = NULL;
    PyObject *result = NULL;
    Py_ssize_t held = 0;
    if (factors.len != num_grads * (Py_ssize_t)sizeof(float)) {
        PyErr_SetString(PyExc_ValueError, "one factor per gradient");
        goto end;
    }
    views = PyMem_Calloc(num_views, sizeof *views);
    vectors = PyMem_Calloc(num_grads + 1, sizeof *vectors);
    if (!views || !vectors) {
        PyErr_NoMemory();
        goto end;
    }
    for (; held < num_views; held++) {
        PyObject *of = held == 0 ? out : held == 1 ? params : PyList_GET_ITEM(grads, held - 2);
        if (PyObject_GetBuffer(of, &views[held], held == 0 ? PyBUF_WRITABLE : PyBUF_SIMPLE) < 0)
            goto end;
        if (held >= 2)
            vectors[held - 2] = views[held].buf;
    }
    const Update of = {views[0].buf, views[1].buf, vectors, factors.buf, num_grads,
                       views[0].len / (Py_ssize_t)sizeof(float), uniform};
    const char *why = refused(&of, views, num_views, counts.len);
    if (why) {
        PyErr_SetString(PyExc_ValueError, why);
        goto end;
    }
    Py_BEGIN_ALLOW_THREADS;
    take_shares(&of, counts.buf, waits);
    Py_END_ALLOW_THREADS;
    result = Py_NewRef(Py_None);
end:
    while (held > 0)
        PyBuffer_Release(&views[--held]);
    PyMem_Free(views);
    PyMem_Free(vectors);
    PyBuffer_Release(&factors);
    PyBuffer_Release(&counts);
    return result;
}

static PyMethodDef methods[] = {
    {"add", add, METH_VARARGS, "Write params + the weighted sum of gradients to out (float32), together with other threads."},
    {NULL}};

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, .m_name = "_updates", .m_size = -1, .m_methods = methods};

PyMODINIT_FUNC PyInit__updates(void) { return PyModule_Create(&definition); }

/* The model of shared machines, compiled: one module, so that its parts call each other without Python.
 *
 * It is the only implementation; tests compare it with simple ones of their own and with SimGrid. */

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "heap.h"
#include "joint.h"
#include "types.h"
#include "fair_rates.h"
#include "ends.h"
#include "fluid.h"
#include "fluid_type.h"
#include "step.h"
#include "clock.h"
#include "clock_type.h"
#include "sharing.h"
#include "sharing_type.h"
#include "task_work.h"
#include "task_work_type.h"
#include "orders.h"
#include "orders_type.h"
#include "chain.h"
#include "ending.h"
#include "stages.h"
#include "iteration.h"
#include "joined.h"
#include "chain_type.h"

static PyTypeObject *const TYPES[] = {&FluidKind.type, &StepType,    &TimelineKind.type, &ClockKind.type, &SharingKind.type, &TaskKind.type,  &WayKind.type,
                                      &MessageKind.type, &TaskWorkKind.type, &QueueKind.type, &ChainKind.type,   &WorkerKind.type, &IterationKind.type};

static PyMethodDef functions[] = {{"order_updates", (PyCFunction)order_updates, METH_VARARGS,
                                   "Order an update from every server, which reaches them at a time."},
                                  {NULL}};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "_hosts", "The model of shared machines, compiled.", -1, functions, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__hosts(void) {
    PyObject *module = PyModule_Create(&definition);
    for (size_t i = 0; module && i < sizeof TYPES / sizeof *TYPES; i++)
        if (PyModule_AddType(module, TYPES[i]))
            Py_CLEAR(module);
    return module;
}

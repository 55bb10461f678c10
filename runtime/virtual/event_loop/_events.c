/* A job without disturbed members, event by event: clock, workers, servers, ledger and rows without Python code.
 *
 * The strategy is the real object: it is asked for every event. What this loop does not know it leaves to Python, which
 * does the same: records are equal to the last bit. */

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <structmember.h>

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "../compiled/joint.h"
#include "state.h"
#include "machines.h"
#include "protocol.h"
#include "data.h"
#include "decisions.h"
#include "loop_type.h"

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, .m_name = "_events", .m_size = -1};

/* Names for Python: of the times of a work, and of the columns of a row. */
static int add_names(PyObject *module) {
#define COLUMN(name, value) #name,
    PyObject *times = NAMES(WORK_TIMES(NAME)), *integers = NAMES(ROW_INTEGERS(COLUMN));
    PyObject *floats = NAMES("t", WORK_TIMES(NAME) "applied_t");
#undef COLUMN
    int failed = !times || !integers || !floats || PyModule_AddObjectRef(module, "TIMES", times) ||
                 PyModule_AddObjectRef(module, "ROW_INTEGERS", integers) ||
                 PyModule_AddObjectRef(module, "ROW_FLOATS", floats);
    Py_XDECREF(times);
    Py_XDECREF(integers);
    Py_XDECREF(floats);
    return failed;
}

PyMODINIT_FUNC PyInit__events(void) {
    PyObject *module = PyModule_Create(&definition);
    if (!module || learn_vocabulary() || add_names(module) || PyModule_AddType(module, &LoopType) || PyModule_AddIntMacro(module, PAUSE) ||
        PyModule_AddIntMacro(module, FOREIGN) || PyModule_AddIntMacro(module, OVER) ||
        PyModule_AddIntMacro(module, ANSWERED) || PyModule_AddIntMacro(module, HELD) ||
        PyModule_AddIntMacro(module, IDLE) || PyModule_AddIntMacro(module, PUSHED) ||
        PyModule_AddIntMacro(module, ARRIVED) || PyModule_AddIntMacro(module, SERVE) ||
        PyModule_AddIntMacro(module, WOKE) || PyModule_AddIntMacro(module, ROOM) || PyModule_AddIntMacro(module, FEW)) {
        Py_XDECREF(module);
        return NULL;
    }
    return module;
}

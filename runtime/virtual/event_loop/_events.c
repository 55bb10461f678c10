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

#include "../compiled/heap.h"
#include "../compiled/joint.h"
#include "state.h"
#include "machines.h"
#include "protocol.h"
#include "data.h"
#include "decisions.h"
#include "loop_type.h"

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, .m_name = "_events", .m_size = -1};

/* Names for Python: of the times and of all numbers of a work, and of the columns of a row. */
static int add_names(PyObject *module) {
#define COLUMN(name, value) #name,
    struct { const char *name; PyObject *names; } lists[] = {
        {"TIMES", NAMES(WORK_TIMES(NAME))},
        {"NUMBERS", NAMES(WORK_INTEGERS(NAME) WORK_SECONDS(NAME))},
        {"ROW_INTEGERS", NAMES(ROW_INTEGERS(COLUMN))},
        {"ROW_FLOATS", NAMES("t", WORK_TIMES(NAME) "applied_t")}};
#undef COLUMN
    int failed = 0;
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        failed = failed || !lists[i].names || PyModule_AddObjectRef(module, lists[i].name, lists[i].names);
        Py_XDECREF(lists[i].names);
    }
    return failed;
}

PyMODINIT_FUNC PyInit__events(void) {
#define NUMBERED(name) {#name, name}
    static const struct { const char *name; int number; } numbers[] = {
        NUMBERED(PAUSE), NUMBERED(FOREIGN), NUMBERED(OVER),  NUMBERED(ANSWERED), NUMBERED(HELD),
        NUMBERED(IDLE),  NUMBERED(PUSHED),  NUMBERED(ARRIVED), NUMBERED(SERVE),  NUMBERED(WOKE)};
    PyObject *module = PyModule_Create(&definition);
    int failed = !module || learn_vocabulary() || add_names(module) || PyModule_AddType(module, &LoopType);
    for (size_t i = 0; !failed && i < sizeof numbers / sizeof *numbers; i++)
        failed = PyModule_AddIntConstant(module, numbers[i].name, numbers[i].number);
    if (failed)
        Py_CLEAR(module);
    return module;
}

/* SPDX-License-Identifier: MIT */
/*
 * The Python start hook's extension, _cudaenv.abi3.so: libcudaenv behind one function. It is built
 * once against the stable interface of Python 3.6 and loaded by its path, see cudaenv_start.py;
 * nothing of it stays but the function.
 *
 * os.environ is a dictionary that was filled before any hook runs: what cudaenv_start() changed in
 * the C environment is changed there as well, in bytes and without putenv(3), so that os.environ,
 * os.environb and posix.environ agree with it.
 */
#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x03060000
#include <Python.h>

#include <sysexits.h>
#include <unistd.h>

#include "client/cudaenv.h"

/* MODULE's ATTRIBUTE, and of that SUB (NULL: itself), if it is a dictionary. A new reference, or
 * NULL without an exception. */
static PyObject *get_dict(const char *module, const char *attribute, const char *sub)
{
	PyObject *m = PyImport_ImportModule(module);
	PyObject *o = m ? PyObject_GetAttrString(m, attribute) : NULL;

	Py_XDECREF(m);
	if (o && sub) {
		PyObject *inner = PyObject_GetAttrString(o, sub);

		Py_DECREF(o);
		o = inner;
	}
	if (o && !PyDict_Check(o)) {
		Py_DECREF(o);
		o = NULL;
	}
	if (!o)
		PyErr_Clear();
	return o;
}

static int set_item(PyObject *dict, const char *name, const char *value)
{
	PyObject *k = PyBytes_FromString(name), *v = NULL;
	int r = -1;

	if (k && value) {
		v = PyBytes_FromString(value);
		if (v)
			r = PyDict_SetItem(dict, k, v);
	} else if (k) {
		r = PyDict_GetItemWithError(dict, k) ? PyDict_DelItem(dict, k) : 0;
		if (PyErr_Occurred())
			r = -1;
	}
	Py_XDECREF(k);
	Py_XDECREF(v);
	return r;
}

static int follow(PyObject *dict, const struct cudaenv_result *result)
{
	const char *name, *value;
	size_t cursor = 0;

	while (cudaenv_result_change(result, &cursor, &name, &value) > 0)
		if (set_item(dict, name, value) < 0)
			return -1;
	return 0;
}

/* On POSIX os.environ keeps its bytes in posix.environ itself; a program's .pth file may have put
 * another one in place. */
static int follow_all(const struct cudaenv_result *result)
{
	PyObject *data = get_dict("os", "environ", "_data"),
		 *posix = get_dict("posix", "environ", NULL);
	int r = 0;

	if (data)
		r = follow(data, result);
	if (r == 0 && posix && posix != data)
		r = follow(posix, result);
	Py_XDECREF(data);
	Py_XDECREF(posix);
	return r;
}

/* A directory's name as the bytes that the system knows; NULL without an exception for None. */
static PyObject *to_bytes(PyObject *directory)
{
	PyObject *bytes = NULL;

	if (directory == Py_None)
		return NULL;
	if (!PyUnicode_FSConverter(directory, &bytes))
		return NULL;
	return bytes;
}

/* The node's word is that no program shall run on another snapshot than its launcher asked for. At
 * this point there is nothing to flush, and an exception would be caught by who started us. */
static void end_if_unmet(const struct cudaenv_result *result)
{
	const char *required = getenv("CUDAENV_REQUIRE"), *digest = cudaenv_result_digest(result);

	if (cudaenv_result_required(result) != CUDAENV_UNMET_FAILS)
		return;
	(void)dprintf(
		STDERR_FILENO,
		"cudaenv: CUDAENV_REQUIRE=%.64s is not to be had here: this job has %s%.12s, and "
		"on_mismatch = fail\n",
		required ? required : "", *digest ? "snapshot " : "no snapshot", digest);
	_exit(EX_CONFIG);
}

static PyObject *start(PyObject *module, PyObject *directory)
{
	struct cudaenv_result *result = NULL;
	PyObject *bytes = to_bytes(directory);
	long answer;

	if (PyErr_Occurred())
		return NULL;
	answer = cudaenv_start(bytes ? PyBytes_AsString(bytes) : NULL, &result);
	Py_XDECREF(bytes);
	if (answer >= 0)
		end_if_unmet(result);
	if (answer >= 0)
		answer = cudaenv_result_outcome(result);
	if (answer == CUDAENV_APPLIED && follow_all(result) < 0) {
		cudaenv_result_free(result);
		return NULL;
	}
	cudaenv_result_free(result);
	return PyLong_FromLong(answer);
}

static PyMethodDef methods[] = {
	{"start", start, METH_O,
	 "start(runtime_dir) -> int\n\n"
	 "Gives this process the variables of its job. runtime_dir: a directory to look in first, "
	 "or None.\n"
	 "Returns an outcome of cudaenv.h, or a negative errno."},
	{NULL, NULL, 0, NULL},
};

static PyModuleDef_Slot slots[] = {{0, NULL}};

static struct PyModuleDef definition = {
	.m_base = PyModuleDef_HEAD_INIT,
	.m_name = "_cudaenv",
	.m_methods = methods,
	.m_slots = slots,
};

/* The one symbol that is exported. */
PyMODINIT_FUNC PyInit__cudaenv(void);
__attribute__((visibility("default"))) PyMODINIT_FUNC PyInit__cudaenv(void)
{
	return PyModuleDef_Init(&definition);
}

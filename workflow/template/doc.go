// Package template renders the texts of workflows: prompts, inputs, artifacts
// and the conditions of graphs, written in a subset of Jinja2.
//
// A template compiles once and renders often. What it prints is what Jinja2
// on Python prints, to the byte: None and True, 1e+20, nested reprs, the
// order of dicts. What it may do is less. There are the statements if, for,
// set, with and raw; the filters truncate, tojson, title and regex_search;
// some methods that read strings, lists and dicts; Jinja's tests. Nothing
// else, and nothing that changes a value, reaches out of the scope or calls
// into Go: such a template does not compile.
//
// A name, key or index that is not there is an error that names it, never an
// empty text, unless the template asks with is defined. Every rendering has
// a budget of work and memory; a loop without end, 'x' * 10**9 or a pattern
// that backtracks forever is an error too.
//
// Values are made by From, from decoded YAML or JSON, or by ParseJSON.
//
// Not there: includes, macros, inheritance, autoescape, extensions, globals
// and complex numbers. The engine is our own because those that exist for
// Go differ from Jinja in what they print (None, tojson, powers), let a loop
// run without bounds and read files through include.
package template

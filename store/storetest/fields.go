package storetest

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/session"
)

// recordFields records the path of every field that has a value.
func recordFields(v reflect.Value, path string, set map[string]bool) {
	switch {
	case v.Kind() == reflect.Pointer:
		if !v.IsNil() {
			recordFields(v.Elem(), path, set)
		}
	case isRecord(v.Type()):
		for i := range v.NumField() {
			recordFields(v.Field(i), path+"."+v.Type().Field(i).Name, set)
		}
	case v.Kind() == reflect.Slice && isRecord(v.Type().Elem()):
		for i := range v.Len() {
			recordFields(v.Index(i), path, set)
		}
	case v.Kind() == reflect.Map && isRecord(v.Type().Elem()):
		for _, key := range v.MapKeys() {
			recordFields(v.MapIndex(key), path, set)
		}
	case !v.IsZero():
		set[path] = true
	}
}

// isRecord reports a struct with fields of our own.
func isRecord(t reflect.Type) bool {
	return t.Kind() == reflect.Struct && t != reflect.TypeFor[time.Time]()
}

// allFields lists the paths that recordFields can record.
func allFields(t reflect.Type, path string) []string {
	for t.Kind() == reflect.Pointer || (t.Kind() == reflect.Slice || t.Kind() == reflect.Map) && isRecord(t.Elem()) {
		t = t.Elem()
	}
	if !isRecord(t) || t == reflect.TypeFor[json.RawMessage]() {
		return []string{path}
	}
	var paths []string
	for i := range t.NumField() {
		if !t.Field(i).IsExported() {
			continue // no part of the session
		}
		paths = append(paths, allFields(t.Field(i).Type, path+"."+t.Field(i).Name)...)
	}
	return paths
}

// missingFields lists the fields of a session that nothing has set. A task's
// queues are never set: they are its inbox.
func missingFields(set map[string]bool) []string {
	var missing []string
	for _, t := range []reflect.Type{reflect.TypeFor[session.Info](), reflect.TypeFor[session.Definition](), reflect.TypeFor[session.State]()} {
		missing = append(missing, allFields(t, t.Name())...)
	}
	return slices.DeleteFunc(missing, func(path string) bool {
		return set[path] || path == "State.Partial" || strings.HasPrefix(path, "State.Task.Queues.")
	})
}

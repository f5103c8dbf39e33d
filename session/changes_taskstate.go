package session

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// TaskStateChanged moves fields of a task's state that have no event of their
// own: by bucket, then by field, as their JSON names are. A field is replaced
// whole; of an ordered map the pairs that moved are given, with null for one
// that went.
type TaskStateChanged struct {
	Buckets map[string]map[string]json.RawMessage `json:"buckets"`
}

// Kind is task_state_changed.
func (TaskStateChanged) Kind() string { return "task_state_changed" }

func (c TaskStateChanged) normal() (Change, error) {
	kept := map[string]map[string]json.RawMessage{}
	probe := NewTaskState()
	for bucket, fields := range c.Buckets {
		kept[bucket] = map[string]json.RawMessage{}
		for field, raw := range fields {
			raw, err := compact(bucket+"."+field, raw)
			if err != nil {
				return nil, err
			}
			if bucket != permissionBucket {
				if err := probe.setField(bucket, field, raw); err != nil {
					return nil, err
				}
			}
			kept[bucket][field] = raw
		}
	}
	if err := setPermissionFields(&Permissions{Mode: PermissionDefault}, kept[permissionBucket]); err != nil {
		return nil, err
	}
	return TaskStateChanged{Buckets: kept}, nil
}

func (c TaskStateChanged) fold(b *body, _ recordTime) error {
	if b.info.Kind != KindTask {
		return invalid("kind", "%s is no change of a session of kind %s", c.Kind(), b.info.Kind)
	}
	next := b.taskState()
	if err := c.apply(next); err != nil {
		return err
	}
	b.setTask(next)
	if fields := c.Buckets[permissionBucket]; len(fields) > 0 {
		p := b.permissions().Clone()
		if err := setPermissionFields(&p, fields); err != nil {
			return err
		}
		b.setPermissions(p)
	}
	return nil
}

// permissionBucket is where logs of earlier versions have the permissions of a
// task.
const permissionBucket = "permissions"

func setPermissionFields(p *Permissions, fields map[string]json.RawMessage) error {
	for _, field := range slices.Sorted(maps.Keys(fields)) {
		if field == "latestPromptContext" {
			continue
		}
		if err := setByJSON(reflect.ValueOf(p).Elem(), permissionBucket, field, fields[field]); err != nil {
			return err
		}
	}
	if n := len(p.SessionRules); n > MaxSessionRules {
		return &RuleError{Field: "sessionRules", Reason: fmt.Sprintf("%d are more than %d", n, MaxSessionRules)}
	}
	p.DenialTracking = latest(p.DenialTracking, MaxDenials)
	p.SessionRules = listOf(p.SessionRules)
	return CheckPermissionMode(p.Mode)
}

func (c TaskStateChanged) apply(next *TaskState) error {
	for _, bucket := range slices.Sorted(maps.Keys(c.Buckets)) {
		if bucket == permissionBucket {
			continue
		}
		for _, field := range slices.Sorted(maps.Keys(c.Buckets[bucket])) {
			if err := next.setField(bucket, field, c.Buckets[bucket][field]); err != nil {
				return err
			}
		}
	}
	return next.check()
}

// movable are the buckets that TaskStateChanged may move; the others have
// events.
var movable = []string{
	"said", "tools", "files", "loop", "steps", "recovery", "usage", "settings", "checklist",
}

// patched is a field of which only parts are given.
type patched interface {
	patch(raw json.RawMessage) error
}

func (s *TaskState) setField(bucket, field string, raw json.RawMessage) error {
	if p, old := oldPlaces[bucket][field]; old && bucket != "queues" {
		value, err := p.value(raw)
		if err != nil {
			return err
		}
		if p.bucket == "" {
			s.Imported = s.Imported.Without(bucket + "." + field)
			if !saysNothing(value) {
				s.Imported = s.Imported.With(bucket+"."+field, value)
			}
			return nil
		}
		bucket, field, raw = p.bucket, p.field, value
	}
	b, ok := fieldByJSON(reflect.ValueOf(s).Elem(), bucket)
	if !ok || !slices.Contains(movable, bucket) {
		return invalid("task_state_changed", "there is no bucket %s", quoted(bucket))
	}
	return setByJSON(b, bucket, field, raw)
}

// setByJSON sets a field of a struct by its name in JSON, whole or in parts.
func setByJSON(b reflect.Value, bucket, field string, raw json.RawMessage) error {
	f, ok := fieldByJSON(b, field)
	if !ok {
		return invalid("task_state_changed", "bucket %s has no field %s", bucket, quoted(field))
	}
	if p, ok := f.Addr().Interface().(patched); ok {
		if err := p.patch(raw); err != nil {
			return decodeProblem("task_state_changed."+bucket+"."+field, err)
		}
		return nil
	}
	fresh := reflect.New(f.Type())
	if err := DecodeStrict("task_state_changed."+bucket+"."+field, raw, fresh.Interface()); err != nil {
		return err
	}
	f.Set(fresh.Elem())
	return nil
}

// fieldByJSON finds a field of a struct by its name in JSON.
func fieldByJSON(v reflect.Value, name string) (reflect.Value, bool) {
	for i := range v.NumField() {
		tag, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
		if tag == name {
			return v.Field(i), true
		}
	}
	return reflect.Value{}, false
}

// diffed is a field that knows what moved in it.
type diffed interface {
	diff(older any) (json.RawMessage, error)
}

// TaskMoves is the change that leads from one state to another, as far as it
// is not the business of events; false where nothing moved.
func TaskMoves(older, newer TaskState) (TaskStateChanged, bool, error) {
	c := TaskStateChanged{Buckets: map[string]map[string]json.RawMessage{}}
	older, newer = older.normal(), newer.normal()
	a, b := reflect.ValueOf(&older).Elem(), reflect.ValueOf(&newer).Elem()
	for _, bucket := range movable {
		x, _ := fieldByJSON(a, bucket)
		y, _ := fieldByJSON(b, bucket)
		for i := range x.NumField() {
			if reflect.DeepEqual(x.Field(i).Interface(), y.Field(i).Interface()) {
				continue
			}
			raw, err := moved(x.Field(i), y.Field(i))
			if err != nil {
				return c, false, err
			}
			name, _, _ := strings.Cut(x.Type().Field(i).Tag.Get("json"), ",")
			if c.Buckets[bucket] == nil {
				c.Buckets[bucket] = map[string]json.RawMessage{}
			}
			c.Buckets[bucket][name] = raw
		}
	}
	return c, len(c.Buckets) > 0, nil
}

func moved(x, y reflect.Value) (json.RawMessage, error) {
	if d, ok := y.Addr().Interface().(diffed); ok {
		return d.diff(x.Addr().Interface())
	}
	return JSON(y.Interface())
}

// TaskRestored makes a task's state what it was elsewhere: it came with a
// snapshot, or was made of the events of another program. What waits in its
// queues is not part of it.
type TaskRestored struct {
	State       TaskState    `json:"state"`
	Permissions *Permissions `json:"permissions,omitempty"` // nil: none came with it
}

// Kind is task_restored.
func (TaskRestored) Kind() string { return "task_restored" }

func (c TaskRestored) normal() (Change, error) {
	c.State.Queues = TaskQueues{}
	came := c.Permissions
	if came == nil {
		came = c.State.earlier
	}
	state, err := c.State.kept()
	if err != nil || came == nil {
		return TaskRestored{State: state}, err
	}
	p, err := came.normal()
	return TaskRestored{State: state, Permissions: &p}, err
}

func (c TaskRestored) fold(b *body, _ recordTime) error {
	if b.info.Kind != KindTask {
		return invalid("kind", "%s is no change of a session of kind %s", c.Kind(), b.info.Kind)
	}
	b.setTask(&c.State)
	if c.Permissions != nil {
		b.setPermissions(*c.Permissions)
	}
	return nil
}

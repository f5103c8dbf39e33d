// Package table keeps small records by name, as the variables of one session in
// a tenant of its own. Who changed a record, and when, is in that session's log.
package table

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/session"
)

// maxTries bounds how often a write is tried again because others write.
const maxTries = 50

// Table is the records of one session.
type Table[T any] struct {
	rt     *holdfast.Runtime
	tenant string
	name   string // of the session, and of the records in errors
}

// New returns a table in the runtime's store. Its session is created by the
// first write.
func New[T any](rt *holdfast.Runtime, tenant, name string) Table[T] {
	return Table[T]{rt: rt, tenant: tenant, name: name}
}

// as returns the runtime of the table's tenant for an actor.
func (t Table[T]) as(actor string) *holdfast.Runtime {
	return t.rt.For(holdfast.Identity{Tenant: t.tenant, Actor: actor})
}

// Read returns all records as they are now, and the version of the table.
func (t Table[T]) Read(ctx context.Context) (records map[string]T, version int64, err error) {
	records = map[string]T{}
	s, err := t.as("").Get(ctx, t.name)
	if errors.Is(err, session.ErrNotFound) {
		return records, 0, nil
	}
	if err != nil {
		return nil, 0, fmt.Errorf("read the %s: %w", t.name, err)
	}
	for name, v := range s.Variables() {
		var one T
		if err := json.Unmarshal(v.Value, &one); err != nil {
			return nil, 0, &session.CorruptError{ID: t.name, Reason: fmt.Sprintf("%s cannot be read: %v", name, err)}
		}
		records[name] = one
	}
	return records, s.Version(), nil
}

// Write stores a record.
func (t Table[T]) Write(ctx context.Context, name string, record T, actor string) error {
	return t.change(ctx, actor, holdfast.StoreVariable{Key: name, Value: record})
}

// WriteOnce stores a record for a request with an idempotency key, and returns
// what the first request with the key has stored. Content is what was asked for:
// another content with the same key is a ConflictError.
func (t Table[T]) WriteOnce(ctx context.Context, name string, record T, actor, key string, content any) (T, error) {
	rt, err := t.as(actor).Once(t.name, key, "write", content)
	if err != nil {
		return record, err
	}
	s, err := t.execute(ctx, rt, holdfast.StoreVariable{Key: name, Value: record})
	if err != nil {
		return record, err
	}
	var first T
	if err := json.Unmarshal(s.Variables()[name].Value, &first); err != nil {
		return record, &session.CorruptError{ID: t.name, Reason: fmt.Sprintf("%s cannot be read: %v", name, err)}
	}
	return first, nil
}

// Remove removes a record.
func (t Table[T]) Remove(ctx context.Context, name, actor string) error {
	return t.change(ctx, actor, holdfast.DeleteVariable{Key: name})
}

// Update replaces a record by what change makes of it, if it is still there.
// Change is called again if another process wrote meanwhile; false leaves the
// record alone.
func (t Table[T]) Update(ctx context.Context, name, actor string, change func(T) (T, bool)) error {
	rt := t.as(actor)
	for try := 0; ; try++ {
		records, version, err := t.Read(ctx)
		if err != nil {
			return err
		}
		next, ok := change(records[name])
		if _, there := records[name]; !there || !ok {
			return nil
		}
		_, err = rt.Execute(ctx, t.name, holdfast.StoreVariable{Key: name, Value: next}, holdfast.IfVersion(version))
		if err == nil || !errors.Is(err, session.ErrConflict) || try == maxTries {
			return err
		}
	}
}

func (t Table[T]) change(ctx context.Context, actor string, a holdfast.Action) error {
	_, err := t.execute(ctx, t.as(actor), a)
	return err
}

func (t Table[T]) execute(ctx context.Context, rt *holdfast.Runtime, a holdfast.Action) (session.Session, error) {
	for try := 0; ; try++ {
		s, err := rt.Execute(ctx, t.name, a)
		if errors.Is(err, session.ErrNotFound) {
			_, err = rt.Create(ctx, session.Definition{Name: t.name}, holdfast.WithID(t.name), holdfast.WithKind(session.KindPolicy))
			if err == nil {
				continue
			}
		}
		if err == nil {
			return s, nil
		}
		var conflict *session.ConflictError
		if !errors.As(err, &conflict) || conflict.Reason == session.ReasonKeyReused || try == maxTries { // else another process was faster
			return s, fmt.Errorf("write the %s: %w", t.name, err)
		}
	}
}

//go:build unix

package storetest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/holdfast-dev/holdfast/internal/crashtest/child"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

// job tells a worker what to do.
type job struct {
	Do     string // see work
	URL    string
	Name   string        // of the worker, in what it writes
	Record bool          // report snapshots and points
	Waits  bool          // begin when the test says so
	Saves  int           // how many saves it must win; 0: it goes on until it is killed
	Lease  time.Duration // how long it takes leases for
	Seed   uint64
}

// report is a message of a worker to the test.
type report struct {
	Step     string     `json:"step,omitempty"`  // done, and acknowledged by the store
	Token    int64      `json:"token,omitempty"` // of the lease it took
	Snapshot string     `json:"snapshot,omitempty"`
	Points   []string   `json:"points,omitempty"`
	Begin    *operation `json:"begin,omitempty"`
	End      *operation `json:"end,omitempty"`
}

// worker does a job in its own process.
type worker struct {
	job
	*child.Process
	st     store.Store
	holder string
	points []string
}

func work(ctx context.Context, p *child.Process, open Opener, holder []func() (string, error)) error {
	w := &worker{Process: p, holder: fmt.Sprintf("worker %d", os.Getpid())}
	err := p.Job(&w.job)
	if err == nil && len(holder) > 0 {
		w.holder, err = holder[0]()
	}
	if err == nil {
		w.st, err = open(w.URL, w.onWrite)
	}
	if err != nil {
		return err
	}
	if w.Waits {
		w.Report(report{Step: "ready"})
		w.Wait()
	}
	do := map[string]func(context.Context) error{"live": w.live, "race": w.race, "hold": w.hold, "chat": w.chat, "start": w.start}[w.Do]
	if do == nil {
		return fmt.Errorf("unknown job %q", w.Do)
	}
	if err := do(ctx); err != nil {
		return err
	}
	return w.st.Close()
}

func (w *worker) onWrite(point string) {
	if w.Record {
		w.points = append(w.points, point)
	}
	w.Write(point)
}

// step is one write of a session's life. It returns the session as the store
// acknowledged it.
type step struct {
	name string
	do   func(ctx context.Context, w *worker, l *life) error
}

// life is what a worker knows of the session that it creates, uses and deletes.
type life struct {
	s     session.Session
	lease store.Lease
}

const lifeID = "life"

func lifeRef() store.Ref { return store.Ref{Tenant: session.DefaultTenant, ID: lifeID} }

// lifeTime is the time of all writes: two lives are equal byte by byte.
func lifeTime() time.Time { return time.Date(2026, 5, 6, 7, 8, 9, 0, time.UTC) }

func lifeBegin(id string) (session.Session, error) {
	return session.New(session.Identity{ID: id, AgentID: "agent-" + id}, session.Definition{Name: "worker", SystemPrompt: "Be short."}, session.Seed{}, lifeTime())
}

// steps is a life with every kind of write the store is able to do.
func steps(st store.Store) []step {
	_, tails := st.(store.Tails)
	_, leases := st.(store.Leases)
	list := []step{
		{"create", func(ctx context.Context, w *worker, l *life) error {
			s, err := lifeBegin(lifeID)
			if err != nil {
				return err
			}
			l.s, err = w.st.Create(ctx, s, store.Commit{ID: "create", Action: "create", At: lifeTime()})
			return err
		}},
		saveStep("save"),
	}
	if leases {
		list = append(list, acquireStep("acquire"))
	}
	if tails {
		list = append(list, appendStep("append"), appendStep("append again"))
	}
	if leases {
		list = append(list, step{"renew", func(ctx context.Context, w *worker, l *life) (err error) {
			l.lease, err = w.leases().Renew(ctx, lifeRef(), l.lease, w.Lease)
			return err
		}})
	}
	list = append(list, saveStep("seal and release"))
	if leases {
		list = append(list, acquireStep("acquire again"))
	}
	if tails {
		list = append(list, appendStep("append under the new lease"))
	}
	if leases {
		list = append(list, step{"release", func(ctx context.Context, w *worker, l *life) error {
			err := w.leases().Release(ctx, lifeRef(), l.lease)
			l.lease = store.Lease{}
			return err
		}})
	}
	list = append(list, saveStep("seal without a lease"))
	if tails {
		list = append(list, appendStep("append without a lease"))
	}
	if starts, ok := st.(store.Starts); ok {
		list = append(list, startStep("start", starts), saveStep("seal what was started"))
	}
	if memories, ok := st.(store.Memories); ok {
		list = append(list, memorySteps(memories)...)
	}
	return append(list, step{"delete", func(ctx context.Context, w *worker, _ *life) error {
		return w.st.Delete(ctx, lifeRef(), 0)
	}})
}

func saveStep(name string) step {
	return step{name, func(ctx context.Context, w *worker, l *life) error {
		s, err := addText(l.s, name)
		if err != nil {
			return err
		}
		l.s, err = w.st.Save(ctx, s, store.Commit{ID: name, Action: "save", At: lifeTime(), Fence: l.lease.Token, Release: l.lease.Token != 0})
		l.lease = store.Lease{}
		return err
	}}
}

func appendStep(name string) step {
	return step{name, func(ctx context.Context, w *worker, l *life) error {
		s, err := addText(l.s, name)
		if err != nil {
			return err
		}
		l.s, err = w.tails().Append(ctx, s, store.Append{Fence: l.lease.Token})
		return err
	}}
}

func acquireStep(name string) step {
	return step{name, func(ctx context.Context, w *worker, l *life) (err error) {
		l.lease, err = w.leases().Acquire(ctx, lifeRef(), w.holder, w.Lease)
		return err
	}}
}

func startStep(name string, starts store.Starts) step {
	return step{name, func(ctx context.Context, w *worker, l *life) error {
		s, err := addText(l.s, name)
		if err != nil {
			return err
		}
		l.s, l.lease, err = starts.Start(ctx, s, store.Beginning{Holder: w.holder, Length: w.Lease})
		return err
	}}
}

// lifeOwner is whose memory a life has.
func lifeOwner() store.Owner {
	return store.Owner{Tenant: session.DefaultTenant, Scope: store.ScopeUser, Name: lifeID}
}

func memorySteps(memories store.Memories) []step {
	remember := func(name, value string) step {
		return step{name, func(ctx context.Context, _ *worker, _ *life) error {
			m := store.Memo{Key: "key", Value: json.RawMessage(value), CallID: name, At: lifeTime()}
			_, err := memories.Remember(ctx, lifeOwner(), m)
			return err
		}}
	}
	return []step{
		remember("remember", `"first"`), remember("remember more", `"second"`),
		{"forget", func(ctx context.Context, _ *worker, _ *life) error {
			_, err := memories.Forget(ctx, lifeOwner(), "key", nil)
			return err
		}},
		remember("remember again", `"third"`),
		{"forget all", func(ctx context.Context, _ *worker, _ *life) error {
			_, err := memories.ForgetAll(ctx, lifeOwner(), false)
			return err
		}},
	}
}

func (w *worker) tails() store.Tails {
	t, ok := w.st.(store.Tails)
	if !ok {
		panic("the store has no tails")
	}
	return t
}

func (w *worker) leases() store.Leases {
	l, ok := w.st.(store.Leases)
	if !ok {
		panic("the store has no leases")
	}
	return l
}

// addText adds a message.
func addText(s session.Session, text string) (session.Session, error) {
	return s.WithMessage(session.Message{ID: text, Role: session.RoleUser, Content: session.Text(text)}, lifeTime())
}

// live runs all steps of a session's life.
func (w *worker) live(ctx context.Context) error {
	var l life
	for _, step := range steps(w.st) {
		if err := step.do(ctx, w, &l); err != nil {
			return fmt.Errorf("%s: %w", step.name, err)
		}
		done := report{Step: step.name, Token: l.lease.Token}
		if w.Record {
			var err error
			if done.Snapshot, err = snapshot(ctx, w.st); err != nil {
				return err
			}
			done.Points, w.points = w.points, nil
		}
		w.Report(done)
	}
	return nil
}

// absent is the snapshot of a session that is not there.
const absent = "absent"

// snapshot is everything a store holds of the session, in one text.
func snapshot(ctx context.Context, st store.Store) (string, error) {
	_, tails := st.(store.Tails)
	text := ""
	for _, tail := range []bool{false, true} {
		s, err := st.Load(ctx, lifeRef(), tail && tails)
		if errors.Is(err, session.ErrNotFound) {
			return absent, nil
		}
		if err != nil {
			return "", err
		}
		raw, err := json.Marshal(s)
		if err != nil {
			return "", err
		}
		text += fmt.Sprintf("%s base %d tail %t\n", raw, session.Base(s), s.HasTail())
	}
	if memories, ok := st.(store.Memories); ok {
		remembered, err := describeMemories(ctx, memories)
		return text + remembered, err
	}
	return text, nil
}

// describeMemories writes everything that a store remembers and finds in one
// text.
func describeMemories(ctx context.Context, memories store.Memories) (string, error) {
	text := ""
	for version := range int64(4) {
		e, found, err := memories.Entry(ctx, lifeOwner(), "key", version)
		if err != nil {
			return "", err
		}
		text += fmt.Sprintf("version %d found %t: %s of %d\n", version, found, e.Value, e.Version)
	}
	found, err := memories.Search(ctx, session.DefaultTenant, store.Search{
		Words: store.Words("save seal append start first second third"), Session: lifeID, User: lifeID,
	})
	for _, p := range found {
		text += fmt.Sprintf("found %s%s of %d\n", p.MessageID, p.Key, p.Version)
	}
	return text, err
}

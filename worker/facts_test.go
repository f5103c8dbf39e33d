package worker_test

import (
	"context"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/internal/crashtest/child"
	"github.com/holdfast-dev/holdfast/llm"
	"github.com/holdfast-dev/holdfast/llm/scripted"
	"github.com/holdfast-dev/holdfast/memory"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store/sqlite"
	"github.com/holdfast-dev/holdfast/worker"
)

func TestMain(m *testing.M) {
	child.Main(map[string]child.Program{"turn with facts": dieBeforeFacts})
	os.Exit(m.Run())
}

// finderFunc is a model that is asked for facts.
type finderFunc func() string

func (f finderFunc) Infer(context.Context, llm.Request, func(llm.Delta)) (llm.Response, error) {
	return llm.Response{Content: session.Text(f())}, nil
}

// openFacts opens a runtime whose clock is ahead.
func openFacts(ctx context.Context, path string, ahead time.Duration, finder finderFunc) (*holdfast.Runtime, *sqlite.Store, error) {
	st, err := sqlite.Open(ctx, path, sqlite.Config{})
	if err != nil {
		return nil, nil, err
	}
	rt, err := holdfast.New(holdfast.Config{
		Store: st, DefaultModel: "demo", Models: llm.Map{"demo": scripted.New(scripted.Reply{Text: "ok"}), "finder": finder},
		Now: func() time.Time { return time.Now().Add(ahead) },
	})
	return rt, st, err
}

// dieBeforeFacts has a turn and dies when its facts are to be extracted.
func dieBeforeFacts(ctx context.Context, p *child.Process) error {
	var path string
	if err := p.Job(&path); err != nil {
		return err
	}
	rt, _, err := openFacts(ctx, path, 0, func() string { p.Die("asked for facts"); return "" })
	if err != nil {
		return err
	}
	policy := &session.MemoryPolicy{Strategy: session.PruneAll, Scopes: []string{"user"}, Facts: &session.Facts{Model: "finder"}}
	def := session.Definition{Name: "host", Model: "demo", Memory: policy}
	if _, err := rt.For(holdfast.Identity{Tenant: "acme", UserID: "ann"}).Create(ctx, def, holdfast.WithID("talk")); err != nil {
		return err
	}
	if _, err := rt.For(holdfast.Identity{Tenant: "acme"}).Execute(ctx, "talk", holdfast.SendMessage{Text: "I live in Oslo."}); err != nil {
		return err
	}
	select {} // until the background has killed the process
}

// A process is killed after a turn was saved and before its facts were. Of several
// others one extracts them, once.
func TestFacts_ofAKilledProcessAreExtractedOnce(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "facts.db")
	dying, err := child.Start(t.Context(), child.Config{Program: "turn with facts", Job: path})
	if err != nil {
		t.Fatal(err)
	}
	if end, err := dying.Wait(); err != nil || end.Killed != "asked for facts" {
		t.Fatalf("the process ended with %+v, %v", end, err)
	}
	var asked atomic.Int64
	finder := func() string {
		asked.Add(1)
		return `{"facts":[{"fact":"Ann lives in Oslo.","message":1}]}`
	}
	at := func(ahead time.Duration) (*holdfast.Runtime, *sqlite.Store) {
		rt, st, err := openFacts(t.Context(), path, ahead, finder)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := rt.Close(); err != nil {
				t.Error(err)
			}
			if err := st.Close(); err != nil {
				t.Error(err)
			}
		})
		return rt, st
	}
	soon, _ := at(0)
	if n, err := soon.ExtractOwedFacts(t.Context()); n != 0 || err != nil {
		t.Errorf("%d turns at once, %v: they are left to the one that has them", n, err)
	}
	for range 2 {
		rt, st := at(10 * time.Minute)
		w, err := worker.New(worker.Config{Runtime: rt, Store: st, Kinds: map[session.Kind]worker.Kind{session.KindChat: worker.Chats(1)}})
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
		done := make(chan struct{})
		go func() { defer close(done); w.Run(ctx) }()
		t.Cleanup(func() { stop(); <-done })
	}
	m, err := soon.For(holdfast.Identity{Tenant: "acme"}).Memory(t.Context(), "talk")
	if err != nil {
		t.Fatal(err)
	}
	facts := func() (found int) {
		entries, err := m.Keys(t.Context(), memory.ScopeUser, memory.FactSpace, memory.KeyPage{})
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			if f, ok := memory.FactOf(e); ok && f.Text == "Ann lives in Oslo." && e.Version == 1 {
				found++
			}
		}
		return found
	}
	for limit := time.Now().Add(30 * time.Second); facts() == 0; {
		if time.Now().After(limit) {
			t.Fatal("nobody has extracted the facts")
		}
		time.Sleep(10 * time.Millisecond)
	}
	late, _ := at(time.Hour)
	if _, err := late.ExtractOwedFacts(t.Context()); err != nil { // what the others still do is done again without effect
		t.Error(err)
	}
	if n, err := late.ExtractOwedFacts(t.Context()); n != 0 || err != nil || facts() != 1 || asked.Load() != 1 {
		t.Errorf("%d turns again, %v; %d facts, the model was asked %d times", n, err, facts(), asked.Load())
	}
}

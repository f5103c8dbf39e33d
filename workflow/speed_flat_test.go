package workflow_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	goruntime "runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	holdfast "github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/llm"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/inmem"
	"github.com/holdfast-dev/holdfast/store/sqlite"
	"github.com/holdfast-dev/holdfast/workflow"
	"github.com/holdfast-dev/holdfast/workflow/spec"
)

const specHead = "version: 1\nname: Long\nruntime: {provider: scripted, model_id: m, max_parallel: %d}\nagents:\n"

// longChain is a chain of so many steps. Fifty agents take turns, so what one
// of them remembers stays short.
func longChain(steps int) string {
	const agents = 50
	var b strings.Builder
	fmt.Fprintf(&b, specHead, 1)
	for i := range agents {
		fmt.Fprintf(&b, "  a%d: {prompt: Work.}\n", i)
	}
	b.WriteString("pattern:\n  type: chain\n  config:\n    steps:\n      - {agent: a0, input: Begin.}\n")
	for i := range steps - 1 {
		fmt.Fprintf(&b, "      - {agent: a%d, input: \"Go on with {{ steps[%d].response }}\"}\n", (i+1)%agents, i)
	}
	return b.String()
}

// manyBranches is so many branches of one step, some at the same time. What a
// branch does not see it need not be shown: nobody remembers anything.
func manyBranches(branches, together int) string {
	var b strings.Builder
	fmt.Fprintf(&b, specHead, together)
	b.WriteString("  a: {prompt: Work.}\npattern:\n  type: parallel\n  config:\n    branches:\n")
	for i := range branches {
		fmt.Fprintf(&b, "      - {id: b%d, steps: [{agent: a, input: Branch %d begins.}]}\n", i, i)
	}
	return b.String()
}

// instant is a model that answers everything with the same few words, once
// what is to happen before has happened.
type instant struct{ before func(r llm.Request) error }

func (m instant) Infer(_ context.Context, r llm.Request, _ func(llm.Delta)) (llm.Response, error) {
	var err error
	if m.before != nil {
		err = m.before(r)
	}
	return llm.Response{Content: session.Text("An answer of a few words."), FinishReason: "stop", Usage: session.Usage{Input: 10, Output: 5}}, err
}

// speedHost has one model.
func speedHost(m llm.Model) workflow.Host {
	return workflow.Host{
		Models: func(spec.Model) (string, llm.Model, error) { return "instant", m, nil },
		Env:    spec.Env{Providers: []string{"scripted"}},
	}
}

// speedSpec is a spec by its text.
func speedSpec(t testing.TB, text string) *spec.Spec {
	t.Helper()
	path := filepath.Join(t.TempDir(), "spec.yaml")
	err := os.WriteFile(path, []byte(text), 0o600)
	if err == nil {
		var s *spec.Spec
		if s, err = workflow.Load(path, nil); err == nil {
			return s
		}
	}
	t.Fatal(err)
	return nil
}

// speedRuntime works on a store until the test is over.
func speedRuntime(t testing.TB, st store.Store, err error) *holdfast.Runtime {
	t.Helper()
	var rt *holdfast.Runtime
	if err == nil {
		rt, err = holdfast.New(holdfast.Config{Store: st})
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(rt.Close(), st.Close()); err != nil {
			t.Error(err)
		}
	})
	return rt
}

// cost is what this process has spent.
type cost struct{ allocated, written int64 }

func (c cost) minus(d cost) cost { return cost{c.allocated - d.allocated, c.written - d.written} }

// spent counts so far. Written is what was handed to the system to be written,
// 0 where nobody counts that.
func spent(t testing.TB) cost {
	t.Helper()
	var m goruntime.MemStats
	goruntime.ReadMemStats(&m)
	c := cost{allocated: int64(m.TotalAlloc)}
	raw, err := os.ReadFile("/proc/self/io")
	if errors.Is(err, fs.ErrNotExist) {
		return c
	}
	for line := range strings.Lines(string(raw)) {
		if n, ok := strings.CutPrefix(line, "wchar: "); ok && err == nil {
			c.written, err = strconv.ParseInt(strings.TrimSpace(n), 10, 64)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// costs runs a spec of a thousand units and is what each hundred of them cost.
func costs(t *testing.T, rt *holdfast.Runtime, text string) []cost {
	t.Helper()
	h := speedHost(instant{})
	units, last, each := 0, cost{}, []cost{}
	h.OnEvent = func(e workflow.Event) {
		if e.Type != workflow.StepComplete {
			return
		}
		if units++; units == 1 {
			last = spent(t)
		} else if units%100 == 0 {
			now := spent(t)
			each, last = append(each, now.minus(last)), now
		}
	}
	res, err := workflow.Start(t.Context(), rt, speedSpec(t, text), workflow.RunOptions{Host: h, Out: t.TempDir()})
	if err != nil || res.Status != workflow.StatusCompleted || units != 1000 {
		t.Fatalf("%d units, %+v, %v", units, res.Status, err)
	}
	return each
}

// sum adds some hundreds up.
func sum(hundreds []cost) (c cost) {
	for _, h := range hundreds {
		c.allocated += h.allocated
		c.written += h.written
	}
	return c
}

// What a unit costs does not depend on how many are done. Bytes are counted,
// because they do not depend on the machine. It does not run beside other
// tests: the counts are those of the process.
func TestUnit_costIsFlat(t *testing.T) {
	if testing.Short() {
		t.Skip("runs thousands of units")
	}
	onDisk, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "sessions.db"), sqlite.Config{Synchronous: sqlite.Normal})
	const most = 1.2
	flat := func(what string, first, last int64) {
		t.Helper()
		if t.Logf("%s: %d a unit, then %d", what, first/400, last/400); float64(last) > most*float64(first) {
			t.Errorf("%s: %d for the first 400 units, %d for the last", what, first, last)
		}
	}
	// Four hundred at a time: a store tidies up now and then.
	each := costs(t, speedRuntime(t, onDisk, err), longChain(1000))
	flat("bytes written by a chain", sum(each[:4]).written, sum(each[6:]).written)
	each = costs(t, speedRuntime(t, inmem.New(inmem.Config{}), nil), manyBranches(1000, 1))
	flat("bytes allocated for branches", sum(each[:4]).allocated, sum(each[6:]).allocated)
}

// A thousand branches finish, each is asked once, and no more are at work than
// may be.
func TestParallel_aThousandBranches(t *testing.T) {
	t.Parallel()
	const branches, together = 1000, 64
	var now, most atomic.Int64
	full := make(chan struct{})
	reach := sync.OnceFunc(func() { close(full) })
	var mu sync.Mutex // guards asked
	asked := map[string]int{}
	m := instant{before: func(r llm.Request) error {
		mu.Lock()
		asked[r.Messages[len(r.Messages)-1].Content.Text()]++
		mu.Unlock()
		n := now.Add(1)
		defer now.Add(-1)
		for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
		}
		if n == together { // as many as may be have come
			reach()
		}
		<-full
		return nil
	}}
	res, err := workflow.Start(t.Context(), speedRuntime(t, inmem.New(inmem.Config{}), nil), speedSpec(t, manyBranches(branches, together)),
		workflow.RunOptions{Host: speedHost(m), Out: t.TempDir()})
	if err != nil || res.Status != workflow.StatusCompleted {
		t.Fatalf("%+v, %v", res, err)
	}
	if got := most.Load(); got != together {
		t.Errorf("%d were at work at the same time, want %d", got, together)
	}
	for input, n := range asked {
		if n != 1 {
			t.Errorf("%q was asked %d times", input, n)
		}
	}
	if len(asked) != branches {
		t.Errorf("%d branches were asked, want %d", len(asked), branches)
	}
}

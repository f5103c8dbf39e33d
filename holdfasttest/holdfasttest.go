// Package holdfasttest replays recorded conversations in Go tests. Export a
// conversation that went well, keep the file beside the test, and the test says
// whether another model, prompt, tool or version of the program still comes to
// the same:
//
//	func TestRefund(t *testing.T) {
//		recorded := holdfasttest.Load(t, "testdata/refund.json")
//		replayed := holdfasttest.Replay(t, recorded, holdfasttest.Config{Model: model})
//		holdfasttest.Called(t, replayed, 1, "find_order", "refund")
//		holdfasttest.Answered(t, replayed, 1, "refunded")
//	}
//
// A test needs no tools and no network: calls get the recorded results.
package holdfasttest

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/llm"
	"github.com/holdfast-dev/holdfast/replay"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store/inmem"
	"github.com/holdfast-dev/holdfast/tool"
)

// TB is the part of testing.TB that is used here.
type TB interface {
	Helper()
	Context() context.Context
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
}

// Config says what a recording is replayed with.
type Config struct {
	// Model answers, whatever model the recording names. Nil: the recorded
	// answers are given again, which tests everything but the model.
	Model llm.Model

	// Run has the tools that are called although there is a recorded result. All
	// others answer from the recording, or not at all.
	Run []tool.Tool

	// Change may change the definition that was recorded, such as its prompt. Nil:
	// it stays as it is.
	Change func(d *session.Definition)

	// Runtime is what else the agent needs: hooks, skills, capabilities. Its Store
	// is one in memory unless another is given; its Loop and Models are not used.
	Runtime holdfast.Config
}

// Load reads a file that "holdfast sessions export" has written.
func Load(t TB, file string) *replay.Recording {
	t.Helper()
	document, err := os.ReadFile(file) //nolint:gosec // the test names it
	if err != nil {
		t.Fatalf("read a recording: %v", err)
	}
	recorded, err := replay.Parse(document)
	if err != nil {
		t.Fatalf("read the recording %s: %v", file, err)
	}
	return recorded
}

// Replay replays a recording of Load or replay.Load in a session of its own and
// returns how it compares. A turn that fails ends the test.
func Replay(t TB, recorded *replay.Recording, c Config) *replay.Report {
	t.Helper()
	report, err := c.replay(t.Context(), recorded.Alone())
	if err != nil {
		t.Fatalf("replay %s: %v", recorded.Session.ID, err)
	}
	return report
}

func (c Config) replay(ctx context.Context, recorded *replay.Recording) (report *replay.Report, err error) {
	if c.Change != nil {
		c.Change(&recorded.Definition)
	}
	player := &replay.Player{}
	config, err := c.runtime(recorded, player)
	if err != nil {
		return nil, err
	}
	if config.Store == nil {
		config.Store = inmem.New(inmem.Config{})
		defer func() { err = errors.Join(err, config.Store.Close()) }()
	}
	rt, err := holdfast.New(config)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rt.Close()) }()
	names := make([]string, len(c.Run))
	for i, own := range c.Run {
		names[i] = own.Spec().Name
	}
	return player.Play(ctx, rt, recorded, replay.Options{Run: names})
}

// runtime returns what a recording is replayed with. What its definition needs
// and the test does not have is left to the recording.
func (c Config) runtime(r *replay.Recording, player *replay.Player) (holdfast.Config, error) {
	config, def := c.Runtime, &r.Definition
	config.Loop, config.Models = player, oneModel{c.Model}
	if c.Model == nil {
		config.Models = oneModel{r.Model()}
	}
	if def.Model == "" {
		def.Model = "recorded" // any name finds the model
	}
	if config.MCP == nil {
		def.MCP = nil
	}
	if config.Definitions == nil {
		def.Subagents = nil
	}
	tools := append(config.Tools.All(), c.Run...)
	known := func(name string) bool {
		return slices.ContainsFunc(tools, func(t tool.Tool) bool { return t.Spec().Name == name })
	}
	for _, name := range slices.Concat(def.Tools, def.ToolsDeny) {
		if !known(name) && !c.offers(*def, name) {
			tools = append(tools, tool.Client(session.ClientTool{Name: name}))
		}
	}
	var err error
	config.Tools, err = tool.NewSet(tools...)
	return config, err
}

// offers reports whether a runtime has a tool of its own accord, or from a
// capability.
func (c Config) offers(def session.Definition, name string) bool {
	if def.Memory != nil && def.Memory.Tools && strings.HasPrefix(name, "memory_") {
		return true
	}
	for _, capability := range def.Capabilities {
		for _, t := range c.Runtime.Capabilities[capability].Tools {
			if t.Spec().Name == name {
				return true
			}
		}
	}
	return false
}

// oneModel is the model of every name.
type oneModel struct{ model llm.Model }

// Model returns it.
func (m oneModel) Model(string) (llm.Model, error) { return m.model, nil }

// Same fails the test if a turn has another answer, other calls or other results
// than were recorded, and shows them.
func Same(t TB, r *replay.Report) {
	t.Helper()
	if !r.Same() {
		t.Errorf("%d of %d turns differ from the recording:\n%s", r.Differs, len(r.Turns), r)
	}
}

// Called fails the test unless a turn, counted from 1, called exactly these tools
// in this order.
func Called(t TB, r *replay.Report, turn int, tools ...string) {
	t.Helper()
	var called []string
	for _, c := range turnOf(t, r, turn).Calls {
		called = append(called, c.Tool)
	}
	if !slices.Equal(called, tools) {
		t.Errorf("turn %d called %q, want %q", turn, called, tools)
	}
}

// Answered fails the test unless the answer of a turn, counted from 1, has a
// text in it.
func Answered(t TB, r *replay.Report, turn int, text string) {
	t.Helper()
	if answer := turnOf(t, r, turn).Answer; !strings.Contains(answer, text) {
		t.Errorf("turn %d answered %q, which lacks %q", turn, answer, text)
	}
}

func turnOf(t TB, r *replay.Report, turn int) replay.Turn {
	t.Helper()
	if turn < 1 || turn > len(r.Turns) {
		t.Fatalf("there is no turn %d: the replay has %d", turn, len(r.Turns))
		return replay.Turn{}
	}
	return r.Turns[turn-1].Replayed
}

package memory_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/internal/property"
	"github.com/holdfast-dev/holdfast/memory"
	"github.com/holdfast-dev/holdfast/session"
)

var start = time.Date(2026, 3, 1, 9, 0, 0, 0, time.UTC)

func with() memory.With { return memory.With{Now: func() time.Time { return start }} }

type testingT interface {
	Helper()
	Fatal(args ...any)
}

// talk is a session whose transcript follows a pattern: u is a user, a an
// assistant, s a system message, t an assistant with a tool call and its
// result, o an assistant with a call that is not answered.
func talk(t testingT, pattern string) session.Session {
	t.Helper()
	s, err := session.New(session.Identity{ID: "s", AgentID: "a"}, session.Definition{Name: "x"}, session.Seed{}, start)
	if err != nil {
		t.Fatal(err)
	}
	add := func(m session.Message) {
		m.ID = fmt.Sprint("m", s.Seq())
		if s, err = s.WithMessage(m, start); err != nil {
			t.Fatal(err)
		}
	}
	for i, kind := range pattern {
		callID := fmt.Sprint("c", i)
		called := session.Message{Role: session.RoleAssistant, ToolCalls: []session.ToolCall{{ID: callID, Name: "x"}}}
		switch kind {
		case 'u':
			add(session.Message{Role: session.RoleUser, Content: session.Text("123456")})
		case 'a':
			add(session.Message{Role: session.RoleAssistant, Content: session.Text("123456")})
		case 's':
			add(session.Message{Role: session.RoleSystem, Content: session.Text("123456")})
		case 't':
			add(called)
			add(session.Message{Role: session.RoleTool, ToolResult: &session.ToolResult{CallID: callID, Content: "123456"}})
		case 'o':
			add(called)
		}
	}
	return session.Seal(s, start)
}

func shown(s session.Session) int { return len(s.WindowMessages()) }

func TestPrune_strategies(t *testing.T) {
	for _, row := range []struct {
		name, pattern string
		strategy      session.Strategy
		limit, want   int
	}{
		{"all keeps all", "uaua", session.PruneAll, 1, 4},
		{"the last groups", "uauaua", session.PruneSliding, 2, 2},
		{"a tool exchange is one group", "uatua", session.PruneSliding, 3, 4},
		{"system messages stay in sight", "suaua", session.PruneSliding, 2, 3},
		{"open groups and what follows stay", "uaoua", session.PruneSliding, 0, 3},
		{"nothing", "uaua", session.PruneSliding, 0, 0},
		{"less than nothing", "uaua", session.PruneSliding, -3, 0},
		{"a large limit changes nothing", "uaua", session.PruneSliding, 9, 4},
		{"an empty transcript", "", session.PruneSliding, 0, 0},
		{"tokens: six for each message here", "uaua", session.PruneTokens, 12, 2},
		{"tokens: not quite two", "uaua", session.PruneTokens, 11, 1},
		{"tokens: not even the newest", "uaua", session.PruneTokens, 5, 0},
		{"tokens: whole groups only", "uat", session.PruneTokens, 9, 0},
		{"tokens: what stays in sight is counted", "suaua", session.PruneTokens, 12, 2},
		{"tokens: and nothing else where it is too much", "suaua", session.PruneTokens, 5, 1},
	} {
		t.Run(row.name, func(t *testing.T) {
			s := talk(t, row.pattern)
			got, err := memory.Prune(t.Context(), s, row.strategy, row.limit, with())
			if err != nil {
				t.Fatal(err)
			}
			if shown(got) != row.want {
				t.Errorf("%d messages shown, want %d", shown(got), row.want)
			}
			if got.Len() != s.Len() || got.ID() != s.ID() || got.Version() != s.Version() {
				t.Error("a prune deletes nothing")
			}
			moved := shown(got) != shown(s)
			if moved != (len(session.Unsaved(got)) == 1) || moved != got.State().UpdatedAt.After(s.State().UpdatedAt) {
				t.Errorf("moved %v, %d changes, updated at %v after %v", moved, len(session.Unsaved(got)), got.State().UpdatedAt, s.State().UpdatedAt)
			}
		})
	}
}

func TestPrune_onlyShrinks(t *testing.T) {
	property.Check(t, func(t *property.T) {
		s := talk(t, "u"+property.StringOf("uasto", 0, 12).Draw(t, "pattern"))
		for i := range 4 {
			strategy := property.SampledFrom([]session.Strategy{session.PruneSliding, session.PruneTokens}).Draw(t, "strategy")
			next, err := memory.Prune(context.Background(), s, strategy, property.IntRange(-1, 30).Draw(t, "limit"), with())
			if err != nil {
				t.Fatal(err)
			}
			if shown(next) > shown(s) {
				t.Fatalf("prune %d widened the window from %d to %d", i, shown(s), shown(next))
			}
			if err := session.ValidTranscript(session.Sendable(next.WindowMessages())); err != nil {
				t.Fatal(err)
			}
			starts := map[int64]bool{s.Window().FromSeq: true, s.Seq() + 1: true} // unmoved, or everything left
			all := next.Messages()
			for _, g := range session.Groups(all) {
				starts[all[g.From].Seq] = true
			}
			if !starts[next.Window().FromSeq] {
				t.Fatalf("the window begins at %d, inside a group", next.Window().FromSeq)
			}
			s = next
		}
	})
}

func TestPrune_summary(t *testing.T) {
	s := talk(t, "uauaua")
	w := with()
	var previous []string
	w.Summarise = func(_ context.Context, before string, leaving []session.Message) (session.Summary, error) {
		previous = append(previous, before)
		return session.Summary{Text: fmt.Sprintf("%d messages", len(leaving)), Usage: session.Usage{Input: 7}, CreatedAt: start}, nil
	}
	once, err := memory.Prune(t.Context(), s, session.PruneSummary, 2, w)
	if err != nil {
		t.Fatal(err)
	}
	first := once.Window().Summary
	if shown(once) != 2 || first.Text != "4 messages" || first.FromSeq != 2 || first.ToSeq != 5 {
		t.Errorf("%d shown, summary %+v", shown(once), first)
	}
	if usage, _ := once.Usage(); usage.Input != 7 {
		t.Errorf("usage %+v", usage)
	}
	twice, err := memory.Prune(t.Context(), once, session.PruneSummary, 1, w)
	if err != nil {
		t.Fatal(err)
	}
	if got := twice.Window().Summary; got.FromSeq != 2 || got.ToSeq != 6 || previous[1] != "4 messages" {
		t.Errorf("summary %+v after %q", got, previous)
	}
}

func TestPrune_whatFailsMovesNothing(t *testing.T) {
	s := talk(t, "uaua")
	boom := errors.New("boom")
	broken, blank := with(), with()
	broken.Summarise = func(context.Context, string, []session.Message) (session.Summary, error) {
		return session.Summary{}, boom
	}
	blank.Summarise = func(context.Context, string, []session.Message) (session.Summary, error) {
		return session.Summary{Text: " \n"}, nil
	}
	for name, row := range map[string]struct {
		strategy session.Strategy
		with     memory.With
		want     error
	}{
		"the model fails":     {session.PruneSummary, broken, boom},
		"the answer is blank": {session.PruneSummary, blank, session.ErrInvalid},
		"no model":            {session.PruneSummary, with(), session.ErrUnsupported},
		"vector store":        {session.PruneVector, with(), session.ErrUnsupported},
		"unknown strategy":    {"magic", with(), session.ErrInvalid},
	} {
		got, err := memory.Prune(t.Context(), s, row.strategy, 1, row.with)
		if !errors.Is(err, row.want) || len(session.Unsaved(got)) != 0 || shown(got) != 4 {
			t.Errorf("%s: %v, %d shown", name, err, shown(got))
		}
	}
}

func TestEstimate(t *testing.T) {
	for want, m := range map[int]session.Message{
		4:    {},
		5:    {Content: session.Text("a")},
		6:    {Content: session.Text("12345")},
		1005: {Content: session.Content{{Type: session.PartText, Text: "a"}, {Type: session.PartImage, Data: "xxxxxxxxxxxx"}}},
	} {
		if got := memory.Estimate(m); got != want {
			t.Errorf("%+v: %d, want %d", m, got, want)
		}
	}
}

func TestPrune_needsNoClock(t *testing.T) {
	s, err := memory.Prune(t.Context(), talk(t, "uaua"), session.PruneSliding, 1, memory.With{})
	if err != nil || shown(s) != 1 {
		t.Errorf("%d messages, %v", shown(s), err)
	}
}

// A summary is sent with every request, so one that is too long is none.
func TestPrune_refusesALongSummary(t *testing.T) {
	for size, refused := range map[int]bool{64 << 10: false, 64<<10 + 1: true} {
		w := with()
		w.Summarise = func(context.Context, string, []session.Message) (session.Summary, error) {
			return session.Summary{Text: strings.Repeat("x", size)}, nil
		}
		before := talk(t, "uaua")
		after, err := memory.Prune(t.Context(), before, session.PruneSummary, 1, w)
		if errors.Is(err, session.ErrInvalid) != refused || refused && shown(after) != shown(before) {
			t.Errorf("%d bytes: %v", size, err)
		}
	}
}

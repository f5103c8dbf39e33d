package task_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/llm/scripted"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/task"
)

func TestRunText_oneMessageWhateverItTakes(t *testing.T) {
	t.Parallel()
	cut := func(text string) scripted.Reply { return scripted.Reply{Text: text, FinishReason: "length"} }
	for name, c := range map[string]struct {
		replies   []scripted.Reply
		goOn      bool
		want      string
		turns     int
		labels    []string
		mostAfter int
	}{
		"a text":                  {replies: []scripted.Reply{reply("  a text \n")}, goOn: true, want: "a text", turns: 1, labels: []string{"report"}},
		"cut off and gone on":     {replies: []scripted.Reply{cut("one, tw"), reply("o, three")}, goOn: true, want: "one, two, three", turns: 2, labels: []string{"report", "report (continuation)"}, mostAfter: 30},
		"cut off twice":           {replies: []scripted.Reply{cut("one, "), cut("two, "), reply("three")}, goOn: true, want: "one, two,", turns: 2, labels: []string{"report", "report (continuation)"}},
		"cut off, and that is it": {replies: []scripted.Reply{cut("one, tw"), reply("o")}, want: "one, tw", turns: 1, labels: []string{"report"}},
		"nothing":                 {replies: []scripted.Reply{{}, reply("never asked for")}, goOn: true, want: "nothing to say", turns: 1},
		"cut off before a word":   {replies: []scripted.Reply{cut(" "), reply("never asked for")}, goOn: true, want: "nothing to say", turns: 1, labels: []string{"report"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			model := scripted.New(c.replies...)
			s := newSite(t, task.Config{Registry: kit{answers("tool", 1, "x")}}, model)
			id := s.create(spec())
			before := len(s.messages(id))
			var labels []string
			s.with(id, func(r *task.Run) {
				out, err := r.RunText(context.Background(), task.TextInput{
					Messages: []session.Message{{Role: session.RoleUser, Content: session.Text("write")}}, SystemPrompt: "be brief",
					MaxTokens: 20, ContinuationMaxTokens: 30, Label: "report", AllowContinuation: c.goOn, EmptyFallback: "nothing to say",
					OnText: func(label, _ string) { labels = append(labels, label) },
				})
				if err != nil || out.Text != c.want || out.Turns != c.turns {
					t.Errorf("%q in %d turns, %v; want %q in %d", out.Text, out.Turns, err, c.want, c.turns)
				}
			})
			said := s.messages(id)
			if len(said) != before+1 || said[before].Content.Text() != c.want || said[before].Role != session.RoleAssistant {
				t.Errorf("%d messages were added, the last %q", len(said)-before, said[len(said)-1].Content.Text())
			}
			if !slices.Equal(labels, c.labels) {
				t.Errorf("labels %v, want %v", labels, c.labels)
			}
			if l := s.state(id).Loop; l.LifetimeTurns != c.turns || l.Turns != c.turns {
				t.Errorf("%d turns are counted, want %d", l.LifetimeTurns, c.turns)
			}
			for i, r := range model.Requests() {
				if len(r.Tools) > 0 || r.System != "be brief" || *r.Params.MaxOutputTokens != []int{20, 30}[i] {
					t.Errorf("request %d has tools %v, system %q, at most %d", i, r.Tools, r.System, *r.Params.MaxOutputTokens)
				}
				last := r.Messages[len(r.Messages)-1]
				if i == 1 && (last.Role != session.RoleAssistant || !strings.HasPrefix(c.want, strings.TrimSpace(last.Content.Text()))) {
					t.Errorf("the second request ends with %s %q", last.Role, last.Content.Text())
				}
			}
		})
	}
}

func TestRunText_needsATurn(t *testing.T) {
	t.Parallel()
	model := scripted.New()
	s := newSite(t, task.Config{}, model)
	sp := spec()
	sp.Budget = &task.Budget{LifetimeTurns: 1}
	id := s.create(sp)
	s.alter(id, func(st *session.TaskState) { st.Loop.LifetimeTurns = 1 }, nil)
	s.with(id, func(r *task.Run) {
		in := task.TextInput{Messages: []session.Message{{Role: session.RoleUser, Content: session.Text("write")}}}
		if _, err := r.RunText(context.Background(), in); !errors.Is(err, session.ErrBudget) || len(model.Requests()) > 0 {
			t.Errorf("%v after %d requests, want no turn left", err, len(model.Requests()))
		}
	})
}

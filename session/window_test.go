package session_test

import (
	"fmt"
	"reflect"
	"slices"
	"testing"

	"github.com/holdfast-dev/holdfast/internal/property"
	"github.com/holdfast-dev/holdfast/session"
)

// transcript is any sequence of messages: calls and results with few ids, so
// that they repeat, cross, go missing and stand alone.
func transcript() property.Generator[[]session.Message] {
	return property.Custom(func(t *property.T) []session.Message {
		callID := property.SampledFrom([]string{"a", "b", "c", ""})
		messages := make([]session.Message, property.IntRange(0, 14).Draw(t, "length"))
		for i := range messages {
			m := session.Message{ID: fmt.Sprintf("m-%d", i), Seq: int64(i + 1), Role: property.SampledFrom([]session.Role{
				session.RoleUser, session.RoleAssistant, session.RoleAssistant, session.RoleTool, session.RoleTool, session.RoleSystem, session.RoleDeveloper,
			}).Draw(t, "role")}
			switch m.Role {
			case session.RoleAssistant:
				for _, id := range property.SliceOfN(callID, 0, 3).Draw(t, "calls") {
					m.ToolCalls = append(m.ToolCalls, session.ToolCall{ID: id, Name: "tool", Arguments: []byte("{}")})
				}
			case session.RoleTool:
				m.ToolResult = &session.ToolResult{CallID: callID.Draw(t, "callId"), Content: m.ID}
			}
			messages[i] = m
		}
		return messages
	})
}

// orderly is a transcript a provider accepts.
func orderly() property.Generator[[]session.Message] {
	return property.Custom(func(t *property.T) []session.Message {
		messages := []session.Message{{ID: "first", Role: session.RoleUser}}
		for i := range property.IntRange(0, 8).Draw(t, "turns") {
			m := session.Message{ID: fmt.Sprint(i), Role: property.SampledFrom([]session.Role{session.RoleUser, session.RoleAssistant, session.RoleSystem}).Draw(t, "role")}
			if m.Role == session.RoleAssistant {
				for range t.Repeat(0, 3) {
					m.ToolCalls = append(m.ToolCalls, session.ToolCall{ID: property.SampledFrom([]string{"a", "b"}).Draw(t, "id"), Name: "t"})
				}
			}
			messages = append(messages, m)
			for k, c := range m.ToolCalls {
				messages = append(messages, session.Message{ID: fmt.Sprint(i, "/", k), Role: session.RoleTool, ToolResult: &session.ToolResult{CallID: c.ID}})
			}
		}
		return messages
	})
}

// providerAccepts is the rule in other words than the package's: a queue of
// results that are owed.
func providerAccepts(messages []session.Message) error {
	var owed []string
	begun := false
	for i, m := range messages {
		if len(owed) > 0 {
			if m.Role != session.RoleTool || m.ToolResult.CallID != owed[0] {
				return fmt.Errorf("message %d: a result of %q is owed", i, owed[0])
			}
			owed = owed[1:]
			continue
		}
		switch m.Role {
		case session.RoleTool:
			return fmt.Errorf("message %d: no result is owed", i)
		case session.RoleUser:
			begun = true
		case session.RoleAssistant:
			if !begun {
				return fmt.Errorf("message %d: it does not start with a user", i)
			}
			for _, c := range m.ToolCalls {
				owed = append(owed, c.ID)
			}
		}
	}
	if len(owed) > 0 {
		return fmt.Errorf("%d results are owed at the end", len(owed))
	}
	return nil
}

// matches finds, for each result, the message whose call it answers by going
// back from the result: message index and which of its calls. A result that
// answers nothing, or what is answered already, is not in it.
func matches(messages []session.Message) map[int][2]int {
	found := map[int][2]int{}
	taken := map[[2]int]bool{}
	for j, m := range messages {
		if m.Role != session.RoleTool {
			continue
		}
		for i := j - 1; i >= 0; i-- {
			calls := messages[i].ToolCalls
			if !slices.ContainsFunc(calls, func(c session.ToolCall) bool { return c.ID == m.ToolResult.CallID }) {
				continue
			}
			for k, c := range calls {
				if place := [2]int{i, k}; c.ID == m.ToolResult.CallID && !taken[place] {
					taken[place] = true
					found[j] = place
					break
				}
			}
			break // the nearest message with that call, and no other
		}
	}
	return found
}

func TestSendable_everyCutOfEveryTranscript(t *testing.T) {
	t.Parallel()
	property.Check(t, func(t *property.T) {
		messages := property.OneOf(transcript(), orderly()).Draw(t, "transcript")
		for i := range len(messages) + 1 {
			checkSendable(t, messages[:i])
			checkSendable(t, messages[i:])
		}
		from := property.IntRange(0, len(messages)).Draw(t, "from")
		checkSendable(t, messages[from:property.IntRange(from, len(messages)).Draw(t, "to")])
	})
}

func checkSendable(t *property.T, in []session.Message) {
	before := cloneMessages(in)
	out := session.Sendable(in)
	if !reflect.DeepEqual(cloneMessages(in), before) {
		t.Fatal("the input was changed")
	}
	if err := providerAccepts(out); err != nil {
		t.Fatalf("%v\nin  %s\nout %s", err, show(in), show(out))
	}
	accepted := providerAccepts(in) == nil
	if valid := session.ValidTranscript(in) == nil; valid != accepted {
		t.Fatalf("ValidTranscript says %t of %s", valid, show(in))
	}
	if accepted {
		if !reflect.DeepEqual(out, in) {
			t.Fatalf("a valid transcript was touched\nin  %s\nout %s", show(in), show(out))
		}
		return
	}
	start := slices.IndexFunc(in, func(m session.Message) bool { return m.Role == session.RoleUser })
	if start < 0 {
		if len(out) != 0 {
			t.Fatalf("without a user message %s is sent", show(out))
		}
		return
	}
	if have, want := show(out), show(expected(in, start)); have != want {
		t.Fatalf("in   %s\nhave %s\nwant %s", show(in), have, want)
	}
}

// expected repairs by looking up each call's result from the result's side.
func expected(in []session.Message, start int) []session.Message {
	result := map[[2]int]session.Message{}
	for j, place := range matches(in[start:]) {
		result[place] = in[start+j]
	}
	var out []session.Message
	for i, m := range in {
		preamble := m.Role == session.RoleSystem || m.Role == session.RoleDeveloper
		if m.Role == session.RoleTool || i < start && !preamble {
			continue
		}
		out = append(out, m)
		for k, c := range m.ToolCalls {
			r, ok := result[[2]int{i - start, k}]
			if !ok {
				r = session.Message{Role: session.RoleTool, ToolResult: &session.ToolResult{CallID: c.ID, Synthetic: true, IsError: true}}
			}
			out = append(out, r)
		}
	}
	return out
}

func cloneMessages(messages []session.Message) []session.Message {
	c := make([]session.Message, len(messages))
	for i, m := range messages {
		c[i] = m.Clone()
	}
	return c
}

// show is a transcript in one line, synthetic results without an id of their own.
func show(messages []session.Message) string {
	text := ""
	for _, m := range messages {
		switch {
		case m.ToolResult != nil && m.ToolResult.Synthetic:
			text += fmt.Sprintf(" synthetic(%s,%t)", m.ToolResult.CallID, m.ToolResult.IsError)
		case m.ToolResult != nil:
			text += fmt.Sprintf(" %s:result(%s)", m.ID, m.ToolResult.CallID)
		default:
			text += fmt.Sprintf(" %s:%s", m.ID, m.Role)
			for _, c := range m.ToolCalls {
				text += "+" + c.ID
			}
		}
	}
	return text
}

func TestGroups_holdCallsAndResultsTogether(t *testing.T) {
	t.Parallel()
	property.Check(t, func(t *property.T) {
		messages := property.OneOf(transcript(), orderly()).Draw(t, "transcript")
		groups := session.Groups(messages)
		groupOf := make([]int, len(messages))
		next := 0
		for n, g := range groups {
			if g.From != next || g.To <= g.From {
				t.Fatalf("group %+v after %d of %s", g, next, show(messages))
			}
			next = g.To
			for i := g.From; i < g.To; i++ {
				groupOf[i] = n
			}
		}
		if next != len(messages) {
			t.Fatalf("groups end at %d of %d", next, len(messages))
		}
		found := matches(messages)
		answered := map[[2]int]bool{}
		for j, place := range found {
			answered[place] = true
			if groupOf[j] != groupOf[place[0]] {
				t.Fatalf("result %d is not in the group of its call %v: %s", j, place, show(messages))
			}
		}
		for n, g := range groups {
			open := false
			for i := g.From; i < g.To; i++ {
				for k := range messages[i].ToolCalls {
					open = open || !answered[[2]int{i, k}]
				}
			}
			if g.Open != open {
				t.Fatalf("group %+v is open: %t, %s", g, open, show(messages))
			}
			if g.To-g.From == 1 {
				continue
			}
			if place, ok := found[g.To-1]; !ok || groupOf[place[0]] != n || len(messages[g.From].ToolCalls) == 0 {
				t.Fatalf("group %+v is larger than it must be: %s", g, show(messages))
			}
		}
	})
}

func TestGroups_nearestCallOwnsTheResult(t *testing.T) {
	t.Parallel()
	call := func(id string) session.Message {
		return session.Message{ID: "c" + id, Role: session.RoleAssistant, ToolCalls: []session.ToolCall{{ID: id, Name: "t"}}}
	}
	result := func(id string) session.Message {
		return session.Message{ID: "r" + id, Role: session.RoleTool, ToolResult: &session.ToolResult{CallID: id}}
	}
	user := session.Message{ID: "u", Role: session.RoleUser}
	for name, tt := range map[string]struct {
		in   []session.Message
		want []session.Group
	}{
		"none":         {nil, nil},
		"alone":        {[]session.Message{user, user}, []session.Group{{From: 0, To: 1}, {From: 1, To: 2}}},
		"answered":     {[]session.Message{user, call("a"), result("a"), user}, []session.Group{{From: 0, To: 1}, {From: 1, To: 3}, {From: 3, To: 4}}},
		"open":         {[]session.Message{call("a"), user}, []session.Group{{From: 0, To: 1, Open: true}, {From: 1, To: 2}}},
		"id used anew": {[]session.Message{call("a"), call("a"), result("a")}, []session.Group{{From: 0, To: 1, Open: true}, {From: 1, To: 3}}},
		"orphan":       {[]session.Message{result("a"), call("a"), result("a"), result("a")}, []session.Group{{From: 0, To: 1}, {From: 1, To: 3}, {From: 3, To: 4}}},
		"interleaved":  {[]session.Message{call("a"), user, call("b"), result("a"), result("b"), user}, []session.Group{{From: 0, To: 5}, {From: 5, To: 6}}},
	} {
		if have := session.Groups(tt.in); !reflect.DeepEqual(have, tt.want) {
			t.Errorf("%s: have %+v, want %+v", name, have, tt.want)
		}
	}
}

func TestWindowMessages_shareNothing(t *testing.T) {
	t.Parallel()
	s := newSession(t)
	for _, id := range []string{"1", "2", "3"} {
		s = apply(t, s, session.MessageAdded{Message: session.Message{ID: id, Role: session.RoleUser, Content: session.Text("text " + id)}})
	}
	for name, copies := range map[string]func() []session.Message{
		"WindowMessages": s.WindowMessages,
		"MessagesFrom":   func() []session.Message { return s.MessagesFrom(0) },
	} {
		messages := copies()
		messages[0].Content = append(messages[0].Content, session.Part{Type: session.PartText, Text: "appended"})
		messages[2].Content[0].Text = "overwritten"
		if text := messages[1].Content.Text(); text != "text 2" {
			t.Errorf("%s: the second message is %q after the first was appended to", name, text)
		}
		if again := copies(); len(again) != 3 || again[2].Content.Text() != "text 3" || len(again[0].Content) != 1 {
			t.Errorf("%s: what was done to a copy reached the session: %v", name, again)
		}
	}
	if from := s.MessagesFrom(s.Message(1).Seq); len(from) != 2 || from[0].ID != "2" {
		t.Errorf("from the second message on there are %d", len(from))
	}
}

func TestWindow_showsKeptMessagesAndTheRest(t *testing.T) {
	t.Parallel()
	s := newSession(t)
	for i, role := range []session.Role{session.RoleSystem, session.RoleUser, session.RoleDeveloper, session.RoleUser, session.RoleUser} {
		s = apply(t, s, session.MessageAdded{Message: session.Message{ID: fmt.Sprint(i), Role: role}})
	}
	shown := func(s session.Session) []string {
		var ids []string
		for _, m := range s.WindowMessages() {
			ids = append(ids, m.ID)
		}
		return ids
	}
	if !slices.Equal(shown(s), []string{"0", "1", "2", "3", "4"}) || s.Window().FromSeq != 0 {
		t.Errorf("a new window shows %q", shown(s))
	}
	summary := &session.Summary{Text: "before", FromSeq: 2, ToSeq: 5, Usage: session.Usage{Input: 2}, Cost: 5}
	moved := apply(t, s, session.WindowMoved{Strategy: session.PruneSummary, To: 6, Keep: []int64{2, 4}, Summary: summary})
	if !slices.Equal(shown(moved), []string{"0", "2", "4"}) || moved.Len() != 5 || moved.Window().Summary.Text != "before" {
		t.Errorf("it shows %q of %d", shown(moved), moved.Len())
	}
	if used, spent := moved.Usage(); used.Input != 2 || spent != 5 {
		t.Errorf("the summary cost %+v %s", used, spent)
	}
	later := apply(t, moved, session.WindowMoved{Strategy: session.PruneSliding, From: 6, To: 7})
	if len(shown(later)) != 0 || later.Window().Summary == nil {
		t.Errorf("it shows %q, summary %v", shown(later), later.Window().Summary)
	}
	wide := apply(t, later, session.WindowMoved{})
	if !slices.Equal(shown(wide), shown(s)) || wide.Window().Summary != nil {
		t.Errorf("widened to %q", shown(wide))
	}
}

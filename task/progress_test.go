package task

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/tool"
)

func toolError(tool, input string) session.Change {
	return event("tool_error", map[string]any{"callId": "c", "tool": tool, "input": raw(map[string]string{"q": input}), "error": "e"})
}

func toolResult(tool string) session.Change {
	return event("tool_result", map[string]any{"callId": "c", "tool": tool, "result": "ok"})
}

func plainEvent(name string) session.Change { return event(name, map[string]any{}) }

func assistantSays(text string, calls ...session.ToolCall) session.Change {
	return session.MessageAdded{Message: session.Message{ID: "m", Role: session.RoleAssistant, Content: session.Text(text), ToolCalls: calls}}
}

func happenings(changes ...session.Change) []happening {
	var list []happening
	for _, c := range changes {
		list = append(list, readHappening(c))
	}
	return list
}

func times(n int, c session.Change) []session.Change {
	var list []session.Change
	for range n {
		list = append(list, c)
	}
	return list
}

func TestAssess_scoreOfAWindow(t *testing.T) {
	effects := map[string]tool.Effects{
		"file_read": tool.Read, "http_get": tool.Network, "shell": tool.Shell, "file_write": tool.Write,
	}
	step := event("step_completed", map[string]any{"step": session.PlanStep{ID: "s"}})
	for name, c := range map[string]struct {
		events []session.Change
		raw    float64
	}{
		"nothing":                         {nil, 0},
		"a step":                          {times(1, step), 1},
		"writes":                          {[]session.Change{plainEvent("file_created"), plainEvent("file_modified"), plainEvent("file_deleted"), plainEvent("artifact_created")}, 2.4},
		"reads by declared effect":        {times(2, toolResult("file_read")), 2*0.2 + 2*0.1},
		"pages by declared effect":        {times(1, toolResult("http_get")), 0.3 + 0.1},
		"neither":                         {times(1, toolResult("shell")), 0.1},
		"foreign reads by name":           {times(1, toolResult("find_in_file")), 0.2 + 0.1},
		"foreign searches by name":        {times(1, toolResult("web_search_brave")), 0.3 + 0.1},
		"successes count five times":      {times(7, toolResult("shell")), 0.5},
		"a recovery":                      {[]session.Change{toolError("a", "1"), step}, 1 + 0.4},
		"a recovery counts once":          {[]session.Change{plainEvent("error"), step, step}, 2 + 0.4},
		"equal errors":                    {times(3, toolError("a", "1")), -0.8},
		"different errors cost nothing":   {[]session.Change{toolError("a", "1"), toolError("a", "2")}, 0},
		"empty answers":                   {times(2, assistantSays("ok")), -0.6},
		"five letters are not empty":      {times(2, assistantSays("fixed")), 0},
		"an answer with a call is none":   {times(2, assistantSays("", session.ToolCall{ID: "c", Name: "x"})), 0},
		"it is never more than all":       {times(9, step), 4},
		"it is never less than its worst": {times(30, toolError("a", "1")), -4},
	} {
		got := assess(happenings(c.events...), effects).score
		if want := c.raw / 4; math.Abs(got-want) > 1e-9 {
			t.Errorf("%s: score %v, want %v", name, got, want)
		}
	}
}

func TestAssess_dominantIsTheMostFrequentFirstSeen(t *testing.T) {
	a, b := toolError("a", "1"), toolError("b", "1")
	got := assess(happenings(a, b, b, a), nil)
	if got.repeats != 2 || got.dominant == nil || got.dominant.Tool != "a" {
		t.Errorf("of a tie, dominant is %v %d times, want a twice", got.dominant, got.repeats)
	}
	if got := assess(happenings(a, b, b), nil); got.dominant.Tool != "b" || got.repeats != 2 {
		t.Errorf("dominant is %v, want b", got.dominant)
	}
	if got := assess(nil, nil); got.dominant != nil || got.repeats != 0 {
		t.Errorf("without errors there is a dominant one: %v", got.dominant)
	}
}

func TestAssess_errorTakesItsInputFromTheCall(t *testing.T) {
	call := event("tool_call", map[string]any{"callId": "c1", "tool": "a", "input": map[string]any{"z": 1, "b": 2}})
	bare := event("tool_error", map[string]any{"callId": "c1", "tool": "a", "error": "e"})
	got := assess(happenings(call, bare), nil)
	if want := `{"b":2,"z":1}`; got.dominant.Input != want {
		t.Errorf("input %q, want %q", got.dominant.Input, want)
	}
}

func TestRisk_ofTheLastErrors(t *testing.T) {
	f := func(names string) []Fingerprint {
		var list []Fingerprint
		for _, n := range names {
			list = append(list, Fingerprint{Tool: string(n)})
		}
		return list
	}
	for _, c := range []struct {
		errors string
		want   float64
	}{
		{"", 0}, {"a", 0.1}, {"ab", 0.1}, {"aa", 0.4 + 0.3}, {"aab", 0.4 + 0.3/2}, {"aaa", 1}, {"aaab", 0.7 + 0.3*2/3},
		{"abcdefgh", 0.1}, {"aaaabcdefgh", 0.1 + 0}, {"aabbccdd", 0.4 + 0.3*4/7},
	} {
		want := min(c.want, 1)
		if got := riskOf(f(c.errors)); math.Abs(got-want) > 1e-9 {
			t.Errorf("%q: risk %v, want %v", c.errors, got, want)
		}
	}
}

// The text of a fingerprint is not taken apart: a tool or an input that holds
// the separator is still told from another.
func TestFingerprint_equalByFieldsNotByText(t *testing.T) {
	a, b := Fingerprint{Tool: "a::b", Input: "c", Error: "d"}, Fingerprint{Tool: "a", Input: "b::c", Error: "d"}
	if a.String() != b.String() {
		t.Fatalf("the texts differ, so they prove nothing: %q %q", a, b)
	}
	var events []session.Change
	for _, f := range []Fingerprint{a, b, a} {
		events = append(events, event("tool_error", map[string]any{"tool": f.Tool, "input": f.Input, "error": f.Error}))
	}
	if got := assess(happenings(events...), nil); got.repeats != 2 || got.dominant.Tool != "a::b" {
		t.Errorf("%d of %v, want 2 of a::b", got.repeats, got.dominant)
	}
	long := Fingerprint{Tool: "t", Input: strings.Repeat("é", 2000)}
	if n := len([]rune(long.String())); n != 1200 {
		t.Errorf("the text has %d characters, want 1200", n)
	}
}

func TestBlocks_signatureAndImportedText(t *testing.T) {
	call := session.ToolCall{Name: "read", Arguments: []byte(`{"b":1,"a":"x"}`)}
	other := session.ToolCall{Name: "read", Arguments: []byte(`{"a":"x","b":2}`)}
	native := session.TaskLoop{Blocked: &session.Signature{Tool: "read", Input: `{"a":"x","b":1}`}}
	if !blocks(native, call) || blocks(native, other) || blocks(session.TaskLoop{}, call) {
		t.Error("a signature blocks another call than its own")
	}
	text := Fingerprint{Tool: "read", Input: `{"a":"x","b":1}`, Error: "no::such file"}.String()
	imported := session.TaskLoop{BlockedText: &text}
	if !blocks(imported, call) || blocks(imported, other) {
		t.Error("an imported text blocks another call than the one it renders")
	}
}

func TestCircles_eachHintHasItsCondition(t *testing.T) {
	call := func(tool, target, input string, u use) used {
		return used{tool: tool, target: target, input: input, use: u}
	}
	repeat := func(n int, u used) []used {
		var list []used
		for range n {
			list = append(list, u)
		}
		return list
	}
	read := call("read", "a.go", "1", usesRead)
	around := func(n int) []used {
		var list []used
		for i := range n {
			list = append(list, call([]string{"read", "grep"}[i%2], "a.go", fmt.Sprint(i%3), usesRead))
		}
		return list
	}
	all := session.NewSet(hintRepeated, hintTarget, hintEscalation, hintCalls, hintCut)
	for name, c := range map[string]struct {
		h     history
		given session.Set
		want  string
	}{
		"four equal calls":              {history{calls: repeat(4, read)}, nil, ""},
		"five equal calls":              {history{calls: repeat(5, read)}, nil, hintRepeated},
		"five equal calls, told":        {history{calls: repeat(5, read)}, session.NewSet(hintRepeated), ""},
		"reads and writes are work":     {history{calls: append(repeat(1, call("write", "b", "1", usesWrite)), repeat(5, read)...)}, nil, ""},
		"a write long ago is no excuse": {history{calls: append(repeat(1, call("write", "b", "1", usesWrite)), repeat(12, read)...)}, nil, hintRepeated},
		"another tool breaks the row":   {history{calls: append(repeat(4, read), call("grep", "a.go", "1", usesSearch))}, nil, ""},
		"one target":                    {history{calls: around(6)}, nil, hintTarget},
		"one target, too few":           {history{calls: around(5)}, nil, ""},
		"told a moment ago":             {history{calls: around(8), since: 2}, session.NewSet(hintTarget), ""},
		"still there":                   {history{calls: around(8), since: 3}, session.NewSet(hintTarget), hintEscalation},
		"six answers of calls alone":    {history{stops: 6}, nil, hintCalls},
		"five answers of calls alone":   {history{stops: 5}, nil, ""},
		"two cuts":                      {history{cuts: 2}, nil, hintCut},
		"one cut":                       {history{cuts: 1}, nil, ""},
		"everything was said":           {history{calls: around(8), stops: 9, cuts: 9, since: 9}, all, ""},
	} {
		if got, text := circles(c.h, c.given); got != c.want || (got != "") != (text != "") {
			t.Errorf("%s: hint %q (%q), want %q", name, got, text, c.want)
		}
	}
	if _, text := circles(history{calls: around(8), since: 3}, session.NewSet(hintTarget)); !strings.HasPrefix(text, "[LOW_PROGRESS_ESCALATION]") {
		t.Errorf("the stronger hint has no marker: %q", text)
	}
}

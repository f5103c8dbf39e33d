package strands_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/internal/property"
	"github.com/holdfast-dev/holdfast/interop/strands"
	"github.com/holdfast-dev/holdfast/session"
)

func message(t testing.TB, n int, role string, blocks ...string) strands.Message {
	t.Helper()
	return strands.Message{Number: n, Body: strands.Body{Role: role, Content: objects(t, blocks...)}, CreatedAt: at(n + 1), UpdatedAt: at(n + 1)}
}

func asJSON(t testing.TB, v any) string {
	t.Helper()
	raw, err := session.JSON(v)
	if err == nil {
		raw, err = session.CompactJSON("value", raw)
	}
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

const png = `{"image":{"format":"png","source":{"bytes":{"__bytes_encoded__":true,"data":"iVBORw=="}}}}`

func TestToSession_sameWordsInASession(t *testing.T) {
	t.Parallel()
	got := strands.ToSession("tea/", []strands.Message{
		message(t, 0, "user", `{"text":"Which tea?"}`, png, `{"document":{"format":"pdf","name":"menu","source":{"bytes":{"__bytes_encoded__":true,"data":"JVBERg=="}}}}`),
		message(t, 1, "assistant", `{"reasoningContent":{"reasoningText":{"text":"hm","signature":"s"}}}`, `{"text":"I look."}`,
			`{"toolUse":{"toolUseId":"c1","name":"shop","input":{"q":"tea"}}}`, `{"toolUse":{"toolUseId":"c2","name":"clock","input":{}}}`),
		message(t, 2, "user", `{"toolResult":{"toolUseId":"c2","status":"error","content":[{"text":"stopped"}]}}`,
			`{"toolResult":{"toolUseId":"c1","status":"success","content":[{"text":"green"}]}}`),
		message(t, 3, "assistant", `{"text":"Green."}`),
	})
	want := []session.Message{
		{ID: "tea/0", CreatedAt: at(1), Role: session.RoleUser, Content: session.Content{{Type: session.PartText, Text: "Which tea?"},
			{Type: session.PartImage, MediaType: "image/png", Data: "iVBORw=="}, {Type: session.PartFile, MediaType: "application/pdf", Name: "menu", Data: "JVBERg=="}}},
		{ID: "tea/1", CreatedAt: at(2), Role: session.RoleAssistant,
			Content:   session.Content{{Type: session.PartReasoning, Text: "hm", Signature: "s"}, {Type: session.PartText, Text: "I look."}},
			ToolCalls: []session.ToolCall{{ID: "c1", Name: "shop", Arguments: []byte(`{"q":"tea"}`)}, {ID: "c2", Name: "clock", Arguments: []byte(`{}`)}}},
		{ID: "tea/2", CreatedAt: at(3), Role: session.RoleTool, ToolResult: &session.ToolResult{CallID: "c2", ToolName: "clock", Content: "stopped", IsError: true}},
		{ID: "tea/2.1", CreatedAt: at(3), Role: session.RoleTool, ToolResult: &session.ToolResult{CallID: "c1", ToolName: "shop", Content: "green"}},
		{ID: "tea/3", CreatedAt: at(4), Role: session.RoleAssistant, Content: session.Text("Green.")},
	}
	if len(got) != len(want) {
		t.Fatalf("%d messages, want %d: %s", len(got), len(want), asJSON(t, got))
	}
	for i := range want {
		if !reflect.DeepEqual(got[i], want[i]) {
			t.Errorf("message %d is\n%s, want\n%s", i, asJSON(t, got[i]), asJSON(t, want[i]))
		}
	}
}

// What a session sees of blocks that it has no equal for. All of them come back
// as they were.
func TestToSession_foreignBlocksSurvive(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		role   string
		blocks []string
		text   string // what the session's messages say
	}{
		"unknown":               {"user", []string{`{"hologram":{"x":[1.0,{"é":null}]}}`}, ""},
		"two keys":              {"user", []string{`{"text":"a","extra":1}`}, ""},
		"no key":                {"user", []string{`{}`}, ""},
		"cache point":           {"user", []string{`{"text":"a"}`, `{"cachePoint":{"type":"default"}}`, `{"text":"b"}`}, "a\nb"},
		"video":                 {"user", []string{`{"video":{"format":"mp4","source":{"bytes":{"__bytes_encoded__":true,"data":"AAAA"}}}}`}, ""},
		"guard":                 {"user", []string{`{"guardContent":{"text":{"text":"guarded","qualifiers":["query"]}}}`}, "guarded"},
		"guard of an image":     {"user", []string{`{"guardContent":{"image":{"format":"png"}}}`}, ""},
		"citations":             {"assistant", []string{`{"citationsContent":{"citations":[{"title":"t"}],"content":[{"text":"cited "},{"text":"text"}]}}`}, "cited text"},
		"redacted thoughts":     {"assistant", []string{`{"reasoningContent":{"redactedContent":{"__bytes_encoded__":true,"data":"AA=="}}}`}, ""},
		"image by place":        {"user", []string{`{"image":{"format":"png","source":{"s3Location":{"uri":"s3://x"}}}}`}, ""},
		"bad base64":            {"user", []string{`{"image":{"format":"png","source":{"bytes":{"__bytes_encoded__":true,"data":"%"}}}}`}, ""},
		"unknown document":      {"user", []string{`{"document":{"format":"odt","name":"n","source":{"bytes":{"__bytes_encoded__":true,"data":"AAAA"}}}}`}, ""},
		"text after a call":     {"assistant", []string{`{"toolUse":{"toolUseId":"c","name":"n","input":{}}}`, `{"text":"wait"}`}, "wait"},
		"call of no object":     {"assistant", []string{`{"toolUse":{"toolUseId":"c","name":"n","input":"text"}}`}, ""},
		"call of no tool":       {"assistant", []string{`{"toolUse":{"toolUseId":"c","input":{}}}`}, ""},
		"call with more":        {"assistant", []string{`{"toolUse":{"toolUseId":"c","name":"n","input":{},"reasoningSignature":"s"}}`}, ""},
		"a user's call":         {"user", []string{`{"toolUse":{"toolUseId":"c","name":"n","input":{}}}`}, ""},
		"json result":           {"user", []string{`{"toolResult":{"toolUseId":"c","status":"success","content":[{"json":{"a":[1,2.50]}},{"text":"and"}]}}`}, "{\"a\":[1,2.50]}\nand"},
		"image result":          {"user", []string{`{"toolResult":{"toolUseId":"c","status":"success","content":[{"text":"see"},` + png + `]}}`}, "see"},
		"empty result":          {"user", []string{`{"toolResult":{"toolUseId":"c","status":"success","content":[]}}`}, ""},
		"result and words":      {"user", []string{`{"text":"so"}`, `{"toolResult":{"toolUseId":"c","status":"success","content":[{"text":"r"}]}}`}, "r\nso"},
		"null result":           {"user", []string{`{"toolResult":null}`}, ""},
		"other order":           {"user", []string{`{"toolResult":{"content":[{"text":"r"}],"toolUseId":"c","status":"success"}}`}, "r"},
		"empty text":            {"user", []string{`{"text":""}`}, ""},
		"empty texts":           {"user", []string{`{"text":""}`, `{"text":""}`}, "\n"},
		"null text":             {"user", []string{`{"text":null}`}, ""},
		"nothing":               {"assistant", nil, ""},
		"an assistant's result": {"assistant", []string{`{"toolResult":{"toolUseId":"c","status":"success","content":[]}}`}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := message(t, 0, c.role, c.blocks...)
			m.Body.Extra = object(t, `{"metadata":{"usage":1}}`)
			list := strands.ToSession("", []strands.Message{m})
			var texts []string
			for _, said := range list {
				if said.ToolResult != nil {
					texts = append(texts, said.ToolResult.Content)
				} else if said.Role == session.RoleUser || c.role == "assistant" {
					texts = append(texts, said.Content.Text())
				}
			}
			if got := strings.Join(texts, "\n"); got != c.text {
				t.Errorf("a session reads %q, want %q", got, c.text)
			}
			back, err := strands.FromSession(0, throughSession(t, list))
			if err != nil || len(back) != 1 || asJSON(t, back[0].Body) != asJSON(t, m.Body) {
				t.Errorf("comes back as\n%s (%v), was\n%s", asJSON(t, back), err, asJSON(t, m.Body))
			}
		})
	}
}

// throughSession takes messages into a session's log and out of its document.
func throughSession(t testing.TB, list []session.Message) []session.Message {
	t.Helper()
	s, err := session.New(session.Identity{ID: "s", AgentID: "a"}, session.Definition{Name: "d"}, session.Seed{}, at(0))
	for _, m := range list {
		if err == nil {
			s, err = s.WithMessage(m, at(0))
		}
	}
	if err != nil {
		t.Fatalf("a session does not take %s: %v", asJSON(t, list), err)
	}
	folded, err := session.Fold(session.Unsaved(s))
	if err != nil {
		t.Fatal(err)
	}
	return folded.Messages()
}

func TestToSession_partsOnlyOfWhatIsUnderstood(t *testing.T) {
	t.Parallel()
	for _, block := range []string{
		`{"image":{"format":"png","source":{"bytes":{"data":"AAAA"}}}}`, // does not say that it is base64
		`{"image":{"format":"png","source":{"bytes":{"__bytes_encoded__":true,"data":"%"}}}}`,
		`{"document":{"format":"odt","source":{"bytes":{"__bytes_encoded__":true,"data":"AAAA"}}}}`,
		`{"toolUse":{"toolUseId":"c","input":{}}}`,
	} {
		got := strands.ToSession("", []strands.Message{message(t, 0, "assistant", block)})[0]
		want := session.Content{{Type: "strands.block", Raw: []byte(`{"type":"strands.block","block":` + block + `}`)}}
		if !reflect.DeepEqual(got.Content, want) || got.ToolCalls != nil {
			t.Errorf("%s becomes %s", block, asJSON(t, got))
		}
	}
}

// Nothing but their numbers tells these messages apart in a session.
func TestFromSession_keepsMessagesApartThatWereApart(t *testing.T) {
	t.Parallel()
	result := `{"toolResult":{"toolUseId":"c","status":"success","content":[{"text":"r"}]}}`
	for name, list := range map[string][]strands.Message{
		"results after results": {message(t, 0, "user", result), message(t, 1, "user", result)},
		"results with words":    {message(t, 0, "user", result, `{"text":"w"}`), message(t, 1, "user", result)},
		"results, then words":   {message(t, 0, "user", result), message(t, 1, "user", `{"text":"w"}`)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			back, err := strands.FromSession(0, throughSession(t, strands.ToSession("", list)))
			if err != nil || asJSON(t, back) != asJSON(t, list) {
				t.Errorf("comes back as\n%s (%v), was\n%s", asJSON(t, back), err, asJSON(t, list))
			}
		})
	}
}

func TestFromSession_anEditedMessageDoesNotBringItsOldBlocksBack(t *testing.T) {
	t.Parallel()
	list := strands.ToSession("", []strands.Message{message(t, 0, "user", `{"guardContent":{"text":{"text":"secret"}}}`)})
	list[0].Content = session.Text("[removed]")
	back, err := strands.FromSession(0, list)
	if err != nil || asJSON(t, back[0].Body) != `{"role":"user","content":[{"text":"[removed]"}]}` {
		t.Errorf("comes back as %s (%v)", asJSON(t, back), err)
	}
}

func TestFromSession_resultsOfOneUnitStandTogether(t *testing.T) {
	t.Parallel()
	result := func(call, unit string) session.Message {
		return session.Message{Role: session.RoleTool, Unit: unit, CreatedAt: at(1), ToolResult: &session.ToolResult{CallID: call, ToolName: "n", Content: call}}
	}
	back, err := strands.FromSession(4, []session.Message{result("a", "u1"), result("b", "u1"), result("c", "u2")})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, m := range back {
		got = append(got, fmt.Sprintf("%d %s %d", m.Number, m.Unit, len(m.Body.Content)))
	}
	if want := []string{"4 u1 2", "5 u2 1"}; !reflect.DeepEqual(got, want) {
		t.Errorf("messages are %v, want %v", got, want)
	}
}

func TestFromSession_keepsWhatBlocksCannotSay(t *testing.T) {
	t.Parallel()
	list := []session.Message{
		{ID: "0", CreatedAt: at(1), Unit: "step/0", Role: session.RoleUser, Content: session.Content{{Type: session.PartText, Text: "hear"}, {Type: session.PartAudio, Data: "AAAA", MediaType: "audio/wav"}}},
		{ID: "1", CreatedAt: at(2), Unit: "step/0", Role: session.RoleAssistant, ToolCalls: []session.ToolCall{{ID: "c", Name: "n", Arguments: []byte("{}")}}},
		{ID: "2", CreatedAt: at(3), Unit: "step/0", Role: session.RoleTool, ToolResult: &session.ToolResult{CallID: "c", ToolName: "n", Content: "lost", IsError: true, Synthetic: true}},
		{ID: "3", CreatedAt: at(4), Unit: "step/0", Role: session.RoleAssistant, Content: session.Content{{Type: "x.own", Raw: []byte(`{"type":"x.own","a":1}`)}, {Type: session.PartText, Text: "done"}}},
	}
	made, err := strands.FromSession(0, list)
	if err != nil {
		t.Fatal(err)
	}
	if got := asJSON(t, made[0].Body); got != `{"role":"user","content":[{"text":"hear"}]}` {
		t.Errorf("the other program sees %s", got)
	}
	var read []strands.Message
	if err := json.Unmarshal([]byte(asJSON(t, made)), &read); err != nil {
		t.Fatal(err)
	}
	got := strands.ToSession("", read)
	if !reflect.DeepEqual(got, list) {
		t.Errorf("comes back as\n%s, was\n%s", asJSON(t, got), asJSON(t, list))
	}
	// The other program changed the blocks: they win.
	read[0].Body.Content = objects(t, `{"text":"changed"}`)
	if got := strands.ToSession("", read)[0].Content; !reflect.DeepEqual(got, session.Text("changed")) {
		t.Errorf("content is %s", asJSON(t, got))
	}
}

func TestFromSession_onlyThreeCanSpeak(t *testing.T) {
	t.Parallel()
	for _, m := range []session.Message{{Role: session.RoleSystem}, {Role: session.RoleDeveloper}, {Role: session.RoleTool}} {
		if got, err := strands.FromSession(0, []session.Message{m}); !errors.Is(err, session.ErrInvalid) {
			t.Errorf("%s gives %v (%v), want invalid", m.Role, got, err)
		}
	}
}

func TestFromSession_refusesWhatIsNoJSON(t *testing.T) {
	t.Parallel()
	m := session.Message{ID: "m", Role: session.RoleAssistant, ToolCalls: []session.ToolCall{{ID: "c", Name: "n", Arguments: []byte("{")}}}
	if got, err := strands.FromSession(0, []session.Message{m}); !errors.Is(err, session.ErrInvalid) {
		t.Errorf("made %s (%v), want invalid", asJSON(t, got), err)
	}
	m.ToolCalls[0].Arguments = nil // which a session takes for {}
	got, err := strands.FromSession(0, []session.Message{m})
	if err != nil || asJSON(t, got[0].Body.Content) != `[{"toolUse":{"toolUseId":"c","name":"n","input":{}}}]` {
		t.Errorf("made %s (%v)", asJSON(t, got), err)
	}
}

func TestToSession_redactionWins(t *testing.T) {
	t.Parallel()
	m := message(t, 0, "user", `{"text":"my card is 1234"}`)
	m.Redacted = &strands.Body{Role: "user", Content: objects(t, `{"text":"[hidden]"}`)}
	if got := asJSON(t, strands.ToSession("", []strands.Message{m})); strings.Contains(got, "1234") || !strings.Contains(got, "[hidden]") {
		t.Errorf("the session says %s", got)
	}
}

var blockGen = property.OneOf(
	property.Map(property.String(), func(s string) string { return `{"text":` + quote(s) + `}` }),
	property.Map(property.SampledFrom([]string{"a", "b"}), func(s string) string {
		return `{"toolUse":{"toolUseId":"` + s + `","name":"n","input":{"k":[1,2.5,"é"]}}}`
	}),
	property.Map(property.String(), func(s string) string {
		return `{"toolResult":{"toolUseId":"a","status":"success","content":[{"text":` + quote(s) + `}]}}`
	}),
	property.SampledFrom([]string{
		png, `{"cachePoint":{"type":"default"}}`, `{"unheard":[{"of":null}]}`, `{"toolResult":{"toolUseId":"b","status":"error","content":[{"json":{"a":1}},` + png + `]}}`,
		`{"reasoningContent":{"reasoningText":{"text":"hm"}}}`, `{"text":"a","b":1}`,
	}),
)

func quote(s string) string {
	raw, err := session.JSON(s)
	if err != nil {
		panic(err)
	}
	return string(raw)
}

func drawMessages(rt *property.T, t testing.TB) []strands.Message {
	var list []strands.Message
	for n := range rt.Repeat(0, 6) {
		m := message(t, n, property.SampledFrom([]string{"user", "assistant"}).Draw(rt, "role"), property.SliceOfN(blockGen, 0, 4).Draw(rt, "blocks")...)
		m.Unit = property.SampledFrom([]string{"", "step/0", "step/1"}).Draw(rt, "unit")
		list = append(list, m)
	}
	return list
}

func TestToSession_anyConversationComesBack(t *testing.T) {
	t.Parallel()
	property.Check(t, func(rt *property.T) {
		list := drawMessages(rt, t)
		said := throughSession(t, strands.ToSession("p/", list))
		back, err := strands.FromSession(0, said)
		if err != nil {
			rt.Fatal(err)
		}
		if got, want := asJSON(t, back), asJSON(t, list); got != want {
			rt.Fatalf("comes back as\n%s, was\n%s", got, want)
		}
		removed := min(len(said), property.IntRange(0, 8).Draw(rt, "removed"))
		if shown := session.Sendable(said[removed:]); session.ValidTranscript(shown) != nil {
			rt.Fatalf("a model is shown %s", asJSON(t, shown))
		}
	})
}

package llm_test

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/holdfast-dev/holdfast/internal/provtest"
	"github.com/holdfast-dev/holdfast/llm"
	"github.com/holdfast-dev/holdfast/session"
)

func text() *rapid.Generator[string] {
	return rapid.OneOf(
		rapid.SampledFrom([]string{
			"", " ", "\n\t", "plain", "nul\x00byte", "bad\xffutf8", "\ufeffbom", "👩‍👩‍👧", `quote " \ back`, "line\u2028", "data: [DONE]",
			"name with spaces", "https://example.org/a.png", "data:image/png;base64,AAAA", "data:text/plain;base64,aGk=", "data:,x",
		}),
		rapid.StringN(0, 12, -1),
	)
}

// part is any piece of content, good or not.
func part() *rapid.Generator[session.Part] {
	data := rapid.OneOf(text(), rapid.Map(rapid.SliceOfN(rapid.Byte(), 0, 40), base64.StdEncoding.EncodeToString))
	return rapid.Custom(func(t *rapid.T) session.Part {
		if rapid.IntRange(0, 9).Draw(t, "opaque") == 0 {
			kind := rapid.SampledFrom([]string{"hologram", "reasoning_details", "server_tool_use"}).Draw(t, "kind")
			return session.Part{Type: kind, Raw: json.RawMessage(fmt.Sprintf(`{"type":%q,"x":1}`, kind))}
		}
		return session.Part{
			Type: rapid.SampledFrom([]string{session.PartText, session.PartImage, session.PartFile, session.PartAudio, session.PartReasoning}).Draw(t, "type"),
			Text: text().Draw(t, "text"), URL: rapid.OneOf(rapid.Just(""), text()).Draw(t, "url"), Data: data.Draw(t, "data"),
			MediaType: rapid.SampledFrom([]string{"", "image/png", "image/tiff", "application/pdf", "text/plain", "audio/wav", "nonsense; x", "A/B"}).Draw(t, "media"),
			Name:      text().Draw(t, "name"), FileID: rapid.SampledFrom([]string{"", "", "file-1"}).Draw(t, "file"),
			Signature: rapid.SampledFrom([]string{"", "seal"}).Draw(t, "signature"),
		}
	})
}

// message is any message, in whatever place.
func message(id string) *rapid.Generator[session.Message] {
	content := rapid.OneOf(
		rapid.Map(text(), session.Text),
		rapid.Map(rapid.SliceOfN(part(), 0, 4), func(p []session.Part) session.Content { return p }),
	)
	callID := rapid.SampledFrom([]string{"call-1", "call-2", "", "functions.x:0", "call_0", "this-id-is-longer-than-forty-characters-are-long", "é"})
	return rapid.Custom(func(t *rapid.T) session.Message {
		m := session.Message{ID: id, Role: rapid.SampledFrom(session.Roles()).Draw(t, "role"), Name: text().Draw(t, "name"), Content: content.Draw(t, "content")}
		switch m.Role {
		case session.RoleAssistant:
			m.ToolCalls = rapid.SliceOfN(rapid.Custom(func(t *rapid.T) session.ToolCall {
				return session.ToolCall{ID: callID.Draw(t, "id"), Name: "t" + text().Draw(t, "tool"), Arguments: json.RawMessage(`{"x":"\u003c"}`)}
			}), 0, 3).Draw(t, "calls")
		case session.RoleTool:
			m.ToolResult = &session.ToolResult{CallID: callID.Draw(t, "callId"), Content: text().Draw(t, "result"), IsError: rapid.Bool().Draw(t, "isError")}
		}
		return m
	})
}

// transcript is what some session would send.
func transcript(t *rapid.T) []session.Message {
	s, err := session.New(session.Birth{ID: "s", AgentID: "0b9e7c3e-1d1f-4c56-9c1c-0f1a2b3c4d5e", Tenant: "t"}, session.Definition{Name: "d"}, session.Seed{}, time.Unix(1, 0))
	if err != nil {
		t.Fatal(err)
	}
	for i := range rapid.IntRange(1, 10).Draw(t, "messages") {
		m := message(fmt.Sprint("m", i)).Draw(t, "message")
		if i == 0 && rapid.IntRange(0, 3).Draw(t, "begins") > 0 { // as most do
			m = session.Message{ID: m.ID, Role: session.RoleUser, Content: m.Content}
		}
		next, err := s.With(time.Unix(2, 0), session.MessageAdded{Message: m})
		if err != nil {
			continue // a session that refuses it never sends it
		}
		s = next
	}
	return session.Sendable(s.WindowMessages())
}

func request(t *rapid.T) llm.Request {
	r := llm.Request{System: text().Draw(t, "system"), Messages: transcript(t)}
	if rapid.Bool().Draw(t, "tools") {
		r.Tools = []llm.Tool{{Name: "t1", Description: text().Draw(t, "description"), Schema: json.RawMessage(`{"type":"object"}`)}, {Name: "t2"}}
	}
	if rapid.Bool().Draw(t, "params") {
		most, warm, top := rapid.IntRange(1, 1<<20).Draw(t, "most"), rapid.Float64Range(0, 1).Draw(t, "warm"), rapid.Float64Range(0, 1).Draw(t, "top")
		r.Params = session.ModelParams{MaxOutputTokens: &most, Temperature: &warm, TopP: &top, Stop: rapid.SliceOfN(text(), 0, 3).Draw(t, "stop")}
	}
	if rapid.Bool().Draw(t, "format") {
		r.ResponseFormat = &session.ResponseFormat{
			Type: rapid.SampledFrom([]string{"", "text", "json_object", "json_schema"}).Draw(t, "type"), Name: text().Draw(t, "name"), Schema: json.RawMessage(`{"type":"object"}`),
		}
	}
	return r
}

// Whatever has happened to a session, a server that is as strict as the real
// one takes what is sent of it.
func TestInfer_everySendableTranscriptIsTaken(t *testing.T) {
	each(t, func(t *testing.T, p provider) {
		server, model := p.serve(t, provtest.Config{Key: key}, settings{})
		sent := 0
		rapid.Check(t, func(t *rapid.T) {
			r := request(t)
			_, err := model.Infer(t.Context(), r, nil)
			asked := slices.ContainsFunc(r.Messages, func(m session.Message) bool { return m.Role == session.RoleUser })
			if errors.Is(err, session.ErrInvalid) && !asked {
				return // there was nothing to say, and nothing was
			}
			if err != nil {
				all := server.Requests()
				t.Fatalf("%v\n%s", err, all[len(all)-1].Body)
			}
			sent++
		})
		if calls := server.Calls(); calls.Refused > 0 || sent < 50 || calls.Answered != sent {
			t.Errorf("the server counts %+v, %d were sent", calls, sent)
		}
	})
}

package llm_test

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/internal/property"
	"github.com/holdfast-dev/holdfast/internal/provtest"
	"github.com/holdfast-dev/holdfast/llm"
	"github.com/holdfast-dev/holdfast/session"
)

func text() property.Generator[string] {
	return property.OneOf(
		property.SampledFrom([]string{
			"", " ", "\n\t", "plain", "nul\x00byte", "bad\xffutf8", "\ufeffbom", "👩‍👩‍👧", `quote " \ back`, "line\u2028", "data: [DONE]",
			"name with spaces", "https://example.org/a.png", "data:image/png;base64,AAAA", "data:text/plain;base64,aGk=", "data:,x",
		}),
		property.StringN(0, 12),
	)
}

// part is any piece of content, good or not.
func part() property.Generator[session.Part] {
	data := property.OneOf(text(), property.Map(property.SliceOfN(property.Byte(), 0, 40), base64.StdEncoding.EncodeToString))
	return property.Custom(func(t *property.T) session.Part {
		if property.IntRange(0, 9).Draw(t, "opaque") == 0 {
			kind := property.SampledFrom([]string{"hologram", "reasoning_details", "server_tool_use"}).Draw(t, "kind")
			return session.Part{Type: kind, Raw: json.RawMessage(fmt.Sprintf(`{"type":%q,"x":1}`, kind))}
		}
		return session.Part{
			Type: property.SampledFrom([]string{session.PartText, session.PartImage, session.PartFile, session.PartAudio, session.PartReasoning}).Draw(t, "type"),
			Text: text().Draw(t, "text"), URL: property.OneOf(property.Just(""), text()).Draw(t, "url"), Data: data.Draw(t, "data"),
			MediaType: property.SampledFrom([]string{"", "image/png", "image/tiff", "application/pdf", "text/plain", "audio/wav", "nonsense; x", "A/B"}).Draw(t, "media"),
			Name:      text().Draw(t, "name"), FileID: property.SampledFrom([]string{"", "", "file-1"}).Draw(t, "file"),
			Signature: property.SampledFrom([]string{"", "seal"}).Draw(t, "signature"),
		}
	})
}

// message is any message, in whatever place.
func message(id string) property.Generator[session.Message] {
	content := property.OneOf(
		property.Map(text(), session.Text),
		property.Map(property.SliceOfN(part(), 0, 4), func(p []session.Part) session.Content { return p }),
	)
	callID := property.SampledFrom([]string{"call-1", "call-2", "", "functions.x:0", "call_0", "this-id-is-longer-than-forty-characters-are-long", "é"})
	return property.Custom(func(t *property.T) session.Message {
		m := session.Message{ID: id, Role: property.SampledFrom(session.Roles()).Draw(t, "role"), Name: text().Draw(t, "name"), Content: content.Draw(t, "content")}
		switch m.Role {
		case session.RoleAssistant:
			m.ToolCalls = property.SliceOfN(property.Custom(func(t *property.T) session.ToolCall {
				return session.ToolCall{ID: callID.Draw(t, "id"), Name: "t" + text().Draw(t, "tool"), Arguments: json.RawMessage(`{"x":"\u003c"}`)}
			}), 0, 3).Draw(t, "calls")
		case session.RoleTool:
			m.ToolResult = &session.ToolResult{CallID: callID.Draw(t, "callId"), Content: text().Draw(t, "result"), IsError: property.Bool().Draw(t, "isError")}
		}
		return m
	})
}

// transcript is what some session would send.
func transcript(t *property.T) []session.Message {
	s, err := session.New(session.Identity{ID: "s", AgentID: "0b9e7c3e-1d1f-4c56-9c1c-0f1a2b3c4d5e", Tenant: "t"}, session.Definition{Name: "d"}, session.Seed{}, time.Unix(1, 0))
	if err != nil {
		t.Fatal(err)
	}
	for i := range property.IntRange(1, 10).Draw(t, "messages") {
		m := message(fmt.Sprint("m", i)).Draw(t, "message")
		if i == 0 && property.IntRange(0, 3).Draw(t, "begins") > 0 { // as most do
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

func request(t *property.T) llm.Request {
	r := llm.Request{System: text().Draw(t, "system"), Messages: transcript(t)}
	if property.Bool().Draw(t, "tools") {
		r.Tools = []llm.Tool{{Name: "t1", Description: text().Draw(t, "description"), Schema: json.RawMessage(`{"type":"object"}`)}, {Name: "t2"}}
	}
	if property.Bool().Draw(t, "params") {
		most, warm, top := property.IntRange(1, 1<<20).Draw(t, "most"), property.Float64Range(0, 1).Draw(t, "warm"), property.Float64Range(0, 1).Draw(t, "top")
		r.Params = session.ModelParams{MaxOutputTokens: &most, Temperature: &warm, TopP: &top, Stop: property.SliceOfN(text(), 0, 3).Draw(t, "stop")}
	}
	if property.Bool().Draw(t, "format") {
		r.ResponseFormat = &session.ResponseFormat{
			Type: property.SampledFrom([]string{"", "text", "json_object", "json_schema"}).Draw(t, "type"), Name: text().Draw(t, "name"), Schema: json.RawMessage(`{"type":"object"}`),
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
		property.Check(t, func(t *property.T) {
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

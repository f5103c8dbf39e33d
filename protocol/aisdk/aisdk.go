// Package aisdk answers in the way of the Vercel AI SDK: the UI message stream,
// version 1, for its clients 5, 6 and 7. A chat is a session with the same id.
package aisdk

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/apikey"
	"github.com/holdfast-dev/holdfast/internal/problem"
	"github.com/holdfast-dev/holdfast/internal/sse"
	"github.com/holdfast-dev/holdfast/protocol"
	"github.com/holdfast-dev/holdfast/session"
)

// Protocol is the protocol.
type Protocol struct{}

// Prefix is /aisdk/.
func (Protocol) Prefix() string { return "/aisdk/" }

// Routes are the routes.
func (Protocol) Routes() []protocol.Route {
	return []protocol.Route{
		{Pattern: "POST /aisdk/{agent}", Scope: apikey.Write, Serve: func(x *protocol.Exchange) error { return (&exchange{x}).send() }},
		{Pattern: "GET /aisdk/{agent}/{id}/stream", Scope: apikey.Read, Serve: func(x *protocol.Exchange) error { return (&exchange{x}).resume() }},
	}
}

// WriteProblem writes an error as text: clients show it as it is.
func (Protocol) WriteProblem(w http.ResponseWriter, p *problem.Problem) {
	protocol.SetProblemHeader(w.Header(), p, "text/plain; charset=utf-8")
	w.WriteHeader(max(p.Status, http.StatusBadRequest))
	fmt.Fprintln(w, p.Detail)
}

// exchange is one request and its response.
type exchange struct{ *protocol.Exchange }

// request is what a client sends. Tools are those that it carries out.
type request struct {
	ID        string               `json:"id"`
	Messages  []uiMessage          `json:"messages"`
	Trigger   string               `json:"trigger"`
	MessageID string               `json:"messageId"`
	Tools     []session.ClientTool `json:"tools"`
}

type uiMessage struct {
	ID    string   `json:"id"`
	Role  string   `json:"role"`
	Parts []uiPart `json:"parts"`
}

// uiPart is what is looked at of a part of a message.
type uiPart struct {
	Type       string          `json:"type"`
	Text       string          `json:"text"`
	URL        string          `json:"url"`
	MediaType  string          `json:"mediaType"`
	Filename   string          `json:"filename"`
	ToolCallID string          `json:"toolCallId"`
	State      string          `json:"state"`
	Output     json.RawMessage `json:"output"`
	ErrorText  string          `json:"errorText"`
	Approval   *struct {
		ID       string `json:"id"`
		Approved *bool  `json:"approved"`
		Reason   string `json:"reason"`
	} `json:"approval"`
}

func (x *exchange) send() error {
	version, err := x.version()
	if err != nil {
		return err
	}
	var in request
	if err := protocol.Decode(x.Request.Body, &in, "id", "messages", "trigger", "messageId", "tools"); err != nil {
		return err
	}
	if len(in.Messages) == 0 {
		return protocol.Invalid("messages", "there is none")
	}
	def, err := x.Host.Agent(x.Request.PathValue("agent"))
	if err != nil {
		return err
	}
	s, err := x.Chat(x.Request.Context(), def, in.ID, "id")
	if err != nil {
		return err
	}
	last := in.Messages[len(in.Messages)-1]
	var t protocol.Turn
	var done <-chan error
	messageID := ""
	switch {
	case last.Role == "assistant":
		messageID = last.ID // what follows is a part of it
		t, done, err = x.respond(s, last)
	case last.Role != "user":
		err = protocol.Invalid("messages", "the last one is neither of a user nor of an assistant")
	case in.Trigger == "regenerate-message":
		t, done, err = x.regenerate(s, last, in.Tools)
	default:
		t, done, err = x.say(s, last, in.Tools)
	}
	if err != nil {
		return err
	}
	return x.stream(t, messageID, version, done)
}

// version is of the client: what is newer than 5 must be asked for, because
// clients refuse chunks that they do not know.
func (x *exchange) version() (int, error) {
	text := x.Request.URL.Query().Get("ai")
	if text == "" {
		return 5, nil
	}
	v, err := strconv.Atoi(text)
	if err != nil || v < 5 || v > 7 {
		return 0, protocol.Invalid("ai", "it is not 5, 6 or 7")
	}
	return v, nil
}

// say sends a message. One that was sent before is not sent again: its turn is
// shown.
func (x *exchange) say(s session.Session, m uiMessage, tools []session.ClientTool) (protocol.Turn, <-chan error, error) {
	for _, there := range s.Messages() {
		if there.Role == session.RoleUser && there.ID == m.ID {
			return protocol.Turn{SessionID: s.ID(), After: there.Seq - 1}, nil, nil
		}
	}
	return x.sendAs(s, m, m.ID, tools)
}

func (x *exchange) sendAs(s session.Session, m uiMessage, id string, tools []session.ClientTool) (protocol.Turn, <-chan error, error) {
	if err := protocol.CheckIdle(s); err != nil {
		return protocol.Turn{}, nil, err
	}
	content, err := contentOf(m)
	if err != nil {
		return protocol.Turn{}, nil, err
	}
	message := session.Message{ID: id, Role: session.RoleUser, Content: content}
	return x.Send(x.Request.Context(), s, holdfast.SendMessage{Message: &message, Tools: tools}, false)
}

func contentOf(m uiMessage) (session.Content, error) {
	var content session.Content
	for _, p := range m.Parts {
		switch p.Type {
		case "text":
			content = append(content, session.Part{Type: session.PartText, Text: p.Text})
		case "file":
			kind := session.PartFile
			if strings.HasPrefix(p.MediaType, "image/") {
				kind = session.PartImage
			}
			part := protocol.MediaPart(kind, p.URL, p.Filename)
			part.MediaType = p.MediaType
			content = append(content, part)
		default:
			return nil, protocol.Invalid("messages", "a part of the type "+p.Type+" is not supported in a message of a user")
		}
	}
	return content, nil
}

// again marks the id of a message that is sent again.
const again = "~"

// regenerate goes back to before a message and sends it again. What was answered
// stays in the versions of the session.
func (x *exchange) regenerate(s session.Session, m uiMessage, tools []session.ClientTool) (protocol.Turn, <-chan error, error) {
	var sent *session.Message
	for _, there := range s.Messages() {
		if there.Role == session.RoleUser && (there.ID == m.ID || strings.HasPrefix(there.ID, m.ID+again)) {
			sent = &there
		}
	}
	if sent == nil {
		return x.sendAs(s, m, m.ID, tools)
	}
	if err := protocol.CheckIdle(s); err != nil {
		return protocol.Turn{}, nil, err
	}
	version := int64(1)
	for e, err := range x.Runtime.Log(x.Request.Context(), s.ID(), sent.Seq-2) {
		if err != nil {
			return protocol.Turn{}, nil, err
		}
		version = max(e.Version, 1)
		break
	}
	s, err := x.Runtime.Execute(x.Request.Context(), s.ID(), holdfast.RewindSession{To: version}, holdfast.IfVersion(s.Version()))
	if err != nil {
		return protocol.Turn{}, nil, err
	}
	return x.sendAs(s, m, m.ID+again+strconv.FormatInt(s.Version(), 10), tools)
}

// respond brings the results and approvals that a message of the assistant has
// got from its client.
func (x *exchange) respond(s session.Session, m uiMessage) (protocol.Turn, <-chan error, error) {
	var responses []session.Response
	for _, p := range s.PendingCalls() {
		if !p.Waiting() {
			continue
		}
		at := slices.IndexFunc(m.Parts, func(part uiPart) bool { return part.ToolCallID == p.CallID })
		if at < 0 {
			return protocol.Turn{}, nil, protocol.Invalid("messages", "the call "+p.CallID+" waits, and the last message does not have it")
		}
		r, err := x.response(p, m.Parts[at])
		if err != nil {
			return protocol.Turn{}, nil, err
		}
		responses = append(responses, r)
	}
	if len(responses) == 0 {
		if t, open, err := x.Current(x.Request.Context(), s); open || err != nil { // they were sent before
			return t, nil, err
		}
		return protocol.Turn{}, nil, protocol.Invalid("messages", "the last one is of the assistant, and no call waits for a result")
	}
	return x.Respond(x.Request.Context(), s, responses, false)
}

func (x *exchange) response(p session.PendingCall, part uiPart) (session.Response, error) {
	r := session.Response{PendingID: p.ID, Action: session.RespondResult}
	switch {
	case p.Kind == session.PendingApproval:
		if part.Approval == nil || part.Approval.Approved == nil {
			return r, protocol.Invalid("messages", "the call "+p.CallID+" waits for an approval")
		}
		r.Action, r.Text = session.RespondDeny, part.Approval.Reason
		if *part.Approval.Approved {
			r.Action, r.Text = session.RespondApprove, ""
		}
		return r, x.Permit(apikey.Approve)
	case part.State == "output-error":
		r.Text, r.IsError = part.ErrorText, true
	case part.State == "output-available":
		if json.Unmarshal(part.Output, &r.Text) != nil { // no text: the model gets the JSON
			r.Text = string(part.Output)
		}
	default:
		return r, protocol.Invalid("messages", "the call "+p.CallID+" has no output")
	}
	if p.Kind == session.PendingQuestion {
		r.Action = session.RespondAnswer
	}
	return r, nil
}

// resume sends the whole answer in progress again, and the rest as it comes.
func (x *exchange) resume() error {
	version, err := x.version()
	if err != nil {
		return err
	}
	s, err := x.Settled(x.Request.Context(), x.Request.PathValue("id"))
	if err != nil {
		return err
	}
	t, open, err := x.Current(x.Request.Context(), s)
	if err != nil {
		return err
	}
	if !open {
		x.Writer.WriteHeader(http.StatusNoContent)
		return nil
	}
	return x.stream(t, "", version, nil)
}

// stream sends the chunks of a turn.
func (x *exchange) stream(t protocol.Turn, messageID string, version int, done <-chan error) error {
	if messageID == "" {
		messageID = fmt.Sprintf("msg_%s_%d", t.SessionID, t.After)
	}
	x.Writer.Header().Set("X-Vercel-Ai-Ui-Message-Stream", "v1")
	return x.WriteEvents(func(out *sse.Writer) error {
		e := newEncoder(version, func(c chunk) bool { return out.Send("", "", c) })
		e.send(chunk{Type: "start", MessageID: messageID})
		err := x.Stream(t, out, done, e.step)
		if err != nil && x.Request.Context().Err() == nil {
			e.send(chunk{Type: "error", ErrorText: problem.Of(err).Detail})
		}
		out.SendText("[DONE]")
		return err
	})
}

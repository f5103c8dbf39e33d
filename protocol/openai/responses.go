package openai

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/internal/problem"
	"github.com/holdfast-dev/holdfast/internal/sse"
	"github.com/holdfast-dev/holdfast/protocol"
	"github.com/holdfast-dev/holdfast/session"
)

const responsePrefix = "resp_"

// responseID is the id of the response that a turn is.
func responseID(t protocol.Turn) string {
	return responsePrefix + t.SessionID + "_" + strconv.FormatInt(t.After, 10)
}

// parseResponseID returns the turn that an id names.
func parseResponseID(id string) (protocol.Turn, error) {
	rest, ok := strings.CutPrefix(id, responsePrefix)
	at := strings.LastIndex(rest, "_")
	if ok && at > 0 {
		if after, err := strconv.ParseInt(rest[at+1:], 10, 64); err == nil && after > 0 {
			return protocol.Turn{SessionID: rest[:at], After: after}, nil
		}
	}
	return protocol.Turn{}, missing("Response", id)
}

// Where a session keeps what only this protocol knows.
const (
	factsKey   = "openai"          // in the metadata of a message: facts
	requestKey = "openai.request"  // in that of a session: the hash of the request that created it
	deletedKey = "openai.deleted"  // the turns whose responses were deleted
	userKey    = "openai.metadata" // the metadata of a conversation
)

// facts are kept with the message of a response.
type facts struct {
	Previous     string            `json:"previous,omitempty"`
	Conversation string            `json:"conversation,omitempty"`
	Background   bool              `json:"background,omitempty"`
	Metadata     map[string]string `json:"metadata,omitempty"`
	Compaction   bool              `json:"compaction,omitempty"` // it is a summary
}

// describe returns the response that a turn is, without what happens in it.
func (x *exchange) describe(s session.Session, t protocol.Turn, f facts) response {
	def, prompt := s.Definition(), s.SystemPrompt()
	r := response{
		ID: responseID(t), Object: "response", CreatedAt: x.Now().Unix(), Status: "in_progress", Background: f.Background, Output: []item{},
		ParallelToolCalls: true, Store: true, ToolChoice: "auto", Tools: []functionTool{}, Truncation: "disabled", ServiceTier: "default",
		Text: textOption{&textFormat{Type: "text"}}, Metadata: f.Metadata, Model: agentPrefix + def.Name,
	}
	if def.Name == definitionName {
		r.Model = s.Model()
		if prompt != "" {
			r.Instructions = &prompt
		}
	}
	if r.Metadata == nil {
		r.Metadata = map[string]string{}
	}
	if f.Previous != "" {
		r.PreviousResponseID = &f.Previous
	}
	if f.Conversation != "" {
		r.Conversation = &conversationID{ID: f.Conversation}
	}
	if p := s.State().ModelParams; p != nil {
		r.MaxOutputTokens, r.Temperature, r.TopP = p.MaxOutputTokens, p.Temperature, p.TopP
	} else if p := def.ModelParams; p != nil {
		r.MaxOutputTokens, r.Temperature, r.TopP = p.MaxOutputTokens, p.Temperature, p.TopP
	}
	if format := def.ResponseFormat; format != nil {
		r.Text.Format = &textFormat{Type: format.Type, Name: format.Name, Schema: format.Schema, Strict: format.Strict}
	}
	if e := s.Execution(); e != nil {
		for _, tool := range e.Tools {
			r.Tools = append(r.Tools, functionTool{Type: "function", Name: tool.Name, Description: tool.Description, Parameters: tool.Schema})
		}
	}
	return r
}

// find reads the turn that a response is, so far.
func (x *exchange) find(ctx context.Context, id string) (session.Session, protocol.Turn, []protocol.Step, bool, error) {
	t, err := parseResponseID(id)
	if err != nil {
		return session.Session{}, t, nil, false, err
	}
	s, err := x.Settled(ctx, t.SessionID)
	if err != nil || slices.Contains(deletedTurns(s), t.After) {
		if err == nil || errors.Is(err, session.ErrNotFound) || errors.Is(err, session.ErrInvalid) {
			err = missing("Response", id)
		}
		return s, t, nil, false, err
	}
	steps, ended, err := x.Read(ctx, t)
	if err == nil && len(steps) == 0 {
		err = missing("Response", id)
	}
	return s, t, steps, ended, err
}

func deletedTurns(s session.Session) []int64 {
	var list []int64
	_ = json.Unmarshal(s.Metadata()[deletedKey], &list) // absent: none
	return list
}

// factsOf returns what was kept with the message of a turn.
func factsOf(steps []protocol.Step) (f facts) {
	for _, s := range steps {
		if added, ok := s.Record.Change.(session.MessageAdded); ok && added.Message.Role == session.RoleUser {
			_ = json.Unmarshal(added.Message.Metadata[factsKey], &f) // another way to send has left none
			break
		}
	}
	return f
}

// read returns the response that a turn is, as far as it has come.
func (x *exchange) read(s session.Session, t protocol.Turn, steps []protocol.Step) response {
	r := x.describe(s, t, factsOf(steps))
	r.CreatedAt = steps[0].Record.At.Unix()
	e := newEncoder(r, 0, nil)
	for _, step := range steps {
		e.step(step)
	}
	return *e.snapshot()
}

func createResponse(x *exchange) error {
	var r request
	if err := x.decode(&r); err != nil {
		return err
	}
	if err := r.check(); err != nil {
		return err
	}
	in, err := x.parseInput(r.Input)
	if err != nil {
		return err
	}
	c := &creation{exchange: x, request: &r, input: in, hash: x.requestHash(r), facts: facts{Previous: r.PreviousResponseID, Background: r.Background, Metadata: r.Metadata}}
	s, t, done, err := c.begin(x.Request.Context())
	if err != nil {
		return err
	}
	if !r.stored() {
		defer x.forget(x.Request.Context(), t.SessionID, done)
	}
	first := x.describe(s, t, c.facts)
	first.Store = r.stored()
	switch {
	case r.Stream:
		return x.stream(first, t, 0, done)
	case r.Background:
		return x.Write(first)
	}
	steps, err := x.Wait(x.Request.Context(), t)
	if err != nil {
		return err
	}
	protocol.AwaitSaved(x.Request.Context(), done)
	final := x.read(s, t, steps)
	final.Store, final.Tools, final.Metadata, final.PreviousResponseID = first.Store, first.Tools, first.Metadata, first.PreviousResponseID
	return x.Write(final)
}

// forget removes a session that was not to be stored.
func (x *exchange) forget(ctx context.Context, id string, done <-chan error) {
	ctx = context.WithoutCancel(ctx)
	if done != nil {
		<-done
	}
	_ = x.Runtime.Purge(ctx, id) // it expires otherwise
}

// stream sends the events of a turn behind a cursor.
func (x *exchange) stream(first response, t protocol.Turn, after cursor, done <-chan error) error {
	return x.WriteEvents(func(out *sse.Writer) error {
		e := newEncoder(first, after, func(v event) bool { return out.Send(v.Type, "", v) })
		e.begin(t.After)
		err := x.Stream(t, out, done, e.step)
		if p := problem.Of(err); p != nil && x.Request.Context().Err() == nil {
			said, _ := errorOf(p)
			out.Send("error", "", event{Type: "error", SequenceNumber: int64(newCursor(e.change, maxPosition, 0)), Code: said.Code, Message: said.Message})
		}
		return err
	})
}

func retrieveResponse(x *exchange) error {
	query := x.Request.URL.Query()
	for name := range query {
		if !slices.Contains([]string{"stream", "starting_after", "include_obfuscation"}, name) {
			return refuse(name, "Unsupported parameter: '%s' is not supported here.", name)
		}
	}
	var in struct {
		Stream bool `json:"stream"`
	}
	if x.Request.ContentLength != 0 { // the client for Go asks for a stream in the body of the GET
		if err := x.decode(&in); err != nil {
			return err
		}
	}
	s, t, steps, _, err := x.find(x.Request.Context(), x.Request.PathValue("id"))
	if err != nil {
		return err
	}
	if query.Get("stream") != "true" && !in.Stream {
		return x.Write(x.read(s, t, steps))
	}
	after, err := strconv.ParseInt("0"+query.Get("starting_after"), 10, 64)
	if err != nil {
		return refuse("starting_after", "'starting_after' is not a number.")
	}
	first := x.describe(s, t, factsOf(steps))
	first.CreatedAt = steps[0].Record.At.Unix()
	return x.stream(first, t, cursor(after), nil)
}

func cancelResponse(x *exchange) error {
	s, t, steps, ended, err := x.find(x.Request.Context(), x.Request.PathValue("id"))
	if err != nil {
		return err
	}
	if !ended {
		err := x.Runtime.Cancel(x.Request.Context(), t.SessionID)
		if err != nil && !errors.Is(err, session.ErrNothingToDo) {
			return err
		}
		if steps, err = x.Wait(x.Request.Context(), t); err != nil {
			return err
		}
	}
	return x.Write(x.read(s, t, steps))
}

func deleteResponse(x *exchange) error {
	s, t, _, ended, err := x.find(x.Request.Context(), x.Request.PathValue("id"))
	if err != nil {
		return err
	}
	if !ended {
		return problem.New(http.StatusConflict, "conflict", "The response has not ended; cancel it first.")
	}
	_, err = x.Runtime.Execute(x.Request.Context(), t.SessionID, holdfast.WriteMetadata{Key: deletedKey, Value: append(deletedTurns(s), t.After)})
	if err != nil {
		return err
	}
	return x.Write(deletion{ID: x.Request.PathValue("id"), Object: "response", Deleted: true})
}

type deletion struct {
	ID      string `json:"id"`
	Object  string `json:"object"`
	Deleted bool   `json:"deleted"`
}

func listInputItems(x *exchange) error {
	_, _, steps, _, err := x.find(x.Request.Context(), x.Request.PathValue("id"))
	if err != nil {
		return err
	}
	var items []item
	for _, s := range steps {
		added, ok := s.Record.Change.(session.MessageAdded)
		if !ok || added.Message.Role == session.RoleAssistant {
			continue
		}
		if r := added.Message.ToolResult; r != nil && slices.ContainsFunc(items, func(i item) bool { return i.Role == "user" }) {
			continue // a tool that the server ran
		}
		items = append(items, itemOf(added.Message))
	}
	return x.writePage(items)
}

// itemOf returns a message as an item.
func itemOf(m session.Message) item {
	if r := m.ToolResult; r != nil {
		return item{ID: "fco_" + m.ID, Type: "function_call_output", Status: "completed", CallID: r.CallID, Output: &r.Content}
	}
	i := item{ID: m.ID, Type: "message", Status: "completed", Role: string(m.Role)}
	if m.Role == session.RoleAssistant && m.StepID != "" { // as its response calls it
		i.ID = "msg_" + m.StepID + "_0"
	}
	for _, p := range m.Content {
		switch {
		case p.Type == session.PartText && m.Role == session.RoleAssistant:
			i.Content = append(i.Content, outputText(p.Text))
		case p.Type == session.PartText:
			i.Content = append(i.Content, part{Type: "input_text", Text: &p.Text})
		case p.Type == session.PartImage:
			i.Content = append(i.Content, part{Type: "input_image", ImageURL: mediaURL(p), Detail: "auto"})
		case p.Type == session.PartFile:
			i.Content = append(i.Content, part{Type: "input_file", FileURL: mediaURL(p), Filename: p.Name})
		}
	}
	return i
}

func mediaURL(p session.Part) string {
	if p.Data != "" {
		return "data:" + p.MediaType + ";base64," + p.Data
	}
	return p.URL
}

// writePage answers with the part of a list that a request asks for. Lists are
// newest first unless the request says otherwise.
func (x *exchange) writePage(items []item) error {
	query := x.Request.URL.Query()
	limit, err := strconv.Atoi("0" + query.Get("limit"))
	if err != nil || limit > 100 {
		return refuse("limit", "'limit' is not a number from 1 to 100.")
	}
	if limit == 0 {
		limit = 20
	}
	if query.Get("order") != "asc" {
		slices.Reverse(items)
	}
	if after := query.Get("after"); after != "" {
		at := slices.IndexFunc(items, func(i item) bool { return i.ID == after })
		if at < 0 {
			return missing("Item", after)
		}
		items = items[at+1:]
	}
	p := page[item]{Object: "list", Data: append([]item{}, items[:min(limit, len(items))]...), HasMore: len(items) > limit}
	if n := len(p.Data); n > 0 {
		p.FirstID, p.LastID = &p.Data[0].ID, &p.Data[n-1].ID
	}
	return x.Write(p)
}

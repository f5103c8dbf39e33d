package openai

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/apikey"
	"github.com/holdfast-dev/holdfast/internal/problem"
	"github.com/holdfast-dev/holdfast/protocol"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

// How long a request that is sent again is recognised, and how often one is tried
// on a session that others change.
const (
	repeatWindow = 10 * time.Minute
	maxTries     = 5
	unstoredLife = time.Hour // of a session that is not to be stored, if its node dies
)

// creation is the request of a response that is being carried out.
type creation struct {
	*exchange
	request *request
	input   input
	hash    string
	facts   facts

	metadata session.Values // of a new session, besides the hash
}

// begin begins the turn, or finds the one that the same request has begun.
func (c *creation) begin(ctx context.Context) (s session.Session, t protocol.Turn, done <-chan error, err error) {
	conversation, err := c.request.conversationID()
	if err != nil {
		return s, t, nil, err
	}
	for try := 1; ; try++ {
		switch {
		case c.request.PreviousResponseID != "":
			s, t, done, err = c.afterResponse(ctx)
		case conversation != "":
			c.facts.Conversation = conversationPrefix + conversation
			s, t, done, err = c.inConversation(ctx, conversation)
		default:
			return c.inNew(ctx)
		}
		if !errors.Is(err, session.ErrConflict) || try == maxTries { // somebody else changed the session meanwhile
			return s, t, done, err
		}
	}
}

// afterResponse continues the session of an earlier response: at its end, or from
// an older one in a fork.
func (c *creation) afterResponse(ctx context.Context) (s session.Session, t protocol.Turn, done <-chan error, err error) {
	s, _, steps, ended, err := c.find(ctx, c.request.PreviousResponseID)
	if err != nil {
		return s, t, nil, err
	}
	if !ended {
		return s, t, nil, notEnded(c.request.PreviousResponseID)
	}
	end := steps[len(steps)-1].Record
	if len(c.input.responses) > 0 {
		c.input.name(steps)
		return c.respond(ctx, s, protocol.Turn{SessionID: s.ID(), After: end.Seq})
	}
	last, next, err := c.isLast(ctx, s.ID(), end.Seq)
	if err != nil {
		return s, t, nil, err
	}
	if c.repeated() && next != nil && c.isSame(next.Change) {
		return s, protocol.Turn{SessionID: s.ID(), After: next.Seq - 1}, nil, nil
	}
	if s.Running() && last {
		return s, t, nil, waitsFor(s)
	}
	if !last || !c.request.stored() {
		fork, err := c.Runtime.Fork(ctx, s.ID(), holdfast.At(end.Version))
		if err != nil {
			return s, t, nil, err
		}
		if s, err = c.Settled(ctx, fork.ID()); err != nil {
			return s, t, nil, err
		}
	}
	return c.say(ctx, s)
}

// name names the calls that responses are for as the session does, also those
// that wait no longer.
func (in *input) name(steps []protocol.Step) {
	for _, s := range steps {
		pending, ok := s.Record.Change.(session.CallPending)
		for i := range in.responses {
			if r := &in.responses[i]; ok && r.PendingID == pending.Call.CallID {
				r.PendingID = pending.Call.ID
				if pending.Call.Kind == session.PendingQuestion {
					r.Action = session.RespondAnswer
				}
			}
		}
	}
}

// isLast reports whether nothing was said after a change; otherwise next is the
// message that was.
func (c *creation) isLast(ctx context.Context, id string, after int64) (last bool, next *session.LogEntry, err error) {
	for e, err := range c.Runtime.Log(ctx, id, after) {
		if err != nil {
			return false, nil, err
		}
		switch change := e.Change.(type) {
		case session.MessageAdded:
			if change.Message.Role == session.RoleUser {
				return false, &e, nil
			}
			return false, nil, nil
		case session.ExecutionStarted, session.CallResponded, session.TranscriptCleared, session.SessionRewound:
			return false, nil, nil
		}
	}
	return true, nil, nil
}

// isSame reports the message of the same request.
func (c *creation) isSame(change session.Change) bool {
	added, ok := change.(session.MessageAdded)
	return ok && strings.HasPrefix(added.Message.ID, "msg_"+c.hash)
}

func notEnded(id string) error {
	return refuse("previous_response_id", "The response '%s' has not ended.", id)
}

func waitsFor(s session.Session) error {
	for _, p := range s.PendingCalls() {
		if p.Waiting() {
			return refuse("input", "No tool output found for function call %s.", p.CallID)
		}
	}
	return problem.New(http.StatusConflict, "busy", "Another response of this conversation is in progress.")
}

// inConversation continues a session.
func (c *creation) inConversation(ctx context.Context, id string) (s session.Session, t protocol.Turn, done <-chan error, err error) {
	if s, err = c.findConversation(ctx, id); err != nil {
		return s, t, nil, err
	}
	if c.repeated() {
		for _, m := range s.Messages() {
			if c.isSame(session.MessageAdded{Message: m}) && c.Now().Sub(m.CreatedAt) < repeatWindow {
				return s, protocol.Turn{SessionID: id, After: m.Seq - 1}, nil, nil
			}
		}
	}
	switch {
	case len(c.input.responses) > 0:
		return c.respond(ctx, s, protocol.Turn{SessionID: id, After: s.Seq()})
	case s.Running():
		return s, t, nil, waitsFor(s)
	case !c.request.stored():
		return s, t, nil, refuse("store", "What is said in a conversation is stored.")
	}
	return c.say(ctx, s)
}

// inNew begins a session.
func (c *creation) inNew(ctx context.Context) (s session.Session, t protocol.Turn, done <-chan error, err error) {
	if c.repeated() {
		page, err := c.Runtime.List(ctx, store.Query{Metadata: map[string]string{requestKey: c.hash}, CreatedAfter: c.Now().Add(-repeatWindow), Order: store.CreatedDesc, Limit: 1})
		if err != nil {
			return s, t, nil, err
		}
		if len(page.Items) > 0 {
			return c.again(ctx, page.Items[0].ID)
		}
	}
	def, err := c.definition(c.request)
	if err != nil {
		return s, t, nil, err
	}
	raw, err := session.JSON(c.hash)
	if err != nil {
		return s, t, nil, err
	}
	seed := session.Seed{Metadata: session.Values{requestKey: raw}, Messages: c.input.earlier}
	maps.Copy(seed.Metadata, c.metadata)
	var opts []holdfast.Option
	if !c.request.stored() {
		opts = append(opts, holdfast.WithExpiry(c.Now().Add(unstoredLife)))
	}
	if c.input.message == nil && len(c.input.responses) > 0 {
		changes, err := c.reopen(&seed)
		if err != nil {
			return s, t, nil, err
		}
		opts = append(opts, holdfast.WithChanges(changes...))
	}
	if s, err = c.Runtime.Create(ctx, def, append(opts, holdfast.WithSeed(seed))...); err != nil {
		return s, t, nil, err
	}
	if c.input.message == nil && len(c.input.responses) > 0 {
		return c.respond(ctx, s, protocol.Turn{SessionID: s.ID(), After: s.Seq()})
	}
	return c.send(ctx, s)
}

// again returns the turn that the same request has begun in a session of its own.
func (c *creation) again(ctx context.Context, id string) (s session.Session, t protocol.Turn, done <-chan error, err error) {
	if s, err = c.Settled(ctx, id); err != nil {
		return s, t, nil, err
	}
	first, err := c.Runtime.Get(ctx, id, holdfast.At(1))
	if err != nil {
		return s, t, nil, err
	}
	t = protocol.Turn{SessionID: id, After: first.Seq()}
	if s.Version() == 1 && !s.HasTail() { // its node died before it said anything
		return c.send(ctx, s)
	}
	return s, t, nil, nil
}

// reopen returns the changes that make a new session wait for the results that a
// client brings with the history it resends.
func (c *creation) reopen(seed *session.Seed) ([]session.Change, error) {
	n := len(seed.Messages) - 1
	if n < 0 || len(seed.Messages[n].ToolCalls) == 0 {
		return nil, refuse("input", "There is no function call for the output of %s.", c.input.responses[0].PendingID)
	}
	asked := seed.Messages[n]
	seed.Messages = seed.Messages[:n]
	now, execution, step := c.Now(), uuid.NewString(), uuid.NewString()
	asked.ID, asked.ExecutionID, asked.StepID, asked.Trace = uuid.NewString(), execution, step, true
	changes := []session.Change{
		session.ExecutionStarted{ExecutionID: execution, Tools: c.request.clientTools()},
		session.InferenceAnswered{StepID: step, Model: c.request.Model, StartedAt: now, FinishReason: "tool_calls"},
		session.MessageAdded{Message: asked},
	}
	for _, call := range asked.ToolCalls {
		changes = append(changes, session.CallPending{Call: session.PendingCall{
			ID: uuid.NewString(), Kind: session.PendingResult, CallID: call.ID, ExecutionID: execution, StepID: step, Tool: call.Name, Arguments: call.Arguments, AskedAt: now,
		}})
	}
	return append(changes, session.ExecutionWaiting{}), nil
}

// say sends the message in a session that exists, with the model and the
// instructions that the request names.
func (c *creation) say(ctx context.Context, s session.Session) (session.Session, protocol.Turn, <-chan error, error) {
	if len(c.input.earlier) > 0 {
		return s, protocol.Turn{}, nil, refuse("input", "What was said earlier is kept: send what is new.")
	}
	s, err := c.adjust(ctx, s)
	if err != nil {
		return s, protocol.Turn{}, nil, err
	}
	return c.send(ctx, s)
}

// adjust changes what a session is to what a request asks for.
func (c *creation) adjust(ctx context.Context, s session.Session) (session.Session, error) {
	actions, err := c.request.adjustments(s)
	for _, a := range actions {
		if s, err = c.Runtime.Execute(ctx, s.ID(), a, holdfast.IfVersion(s.Version())); err != nil {
			return s, err
		}
	}
	return s, err
}

// adjustments are the actions that make a session what a request asks for.
func (r *request) adjustments(s session.Session) ([]holdfast.Action, error) {
	def := s.Definition()
	if def.Name != definitionName {
		switch {
		case r.Model != "" && r.Model != agentPrefix+def.Name:
			return nil, refuse("model", "The conversation belongs to %s%s.", agentPrefix, def.Name)
		case r.Instructions != nil || r.params() != nil || r.format() != nil:
			return nil, refuse("instructions", "The agent %s has instructions and settings of its own.", def.Name)
		}
		return nil, nil
	}
	var actions []holdfast.Action
	has := cmp.Or(s.State().ModelParams, def.ModelParams)
	if r.Model != "" && r.Model != s.Model() || !sameJSON(r.params(), has) {
		if strings.HasPrefix(r.Model, agentPrefix) {
			return nil, refuse("model", "The conversation belongs to the model %s, not to an agent.", s.Model())
		}
		params := r.params()
		if params == nil {
			params = &session.ModelParams{}
		}
		actions = append(actions, holdfast.ChangeModel{Model: cmp.Or(r.Model, s.Model()), Params: params})
	}
	prompt := ""
	if r.Instructions != nil {
		prompt = *r.Instructions
	}
	if prompt != s.SystemPrompt() {
		actions = append(actions, holdfast.ChangeSystemPrompt{Text: prompt})
	}
	if !sameJSON(r.format(), def.ResponseFormat) {
		return nil, refuse("text", "The format of the answers is chosen by the first response of a conversation.")
	}
	return actions, nil
}

// sameJSON compares two values; an empty object is the same as none.
func sameJSON[T any](a, b *T) bool {
	return bytes.Equal(jsonOrNone(a), jsonOrNone(b))
}

func jsonOrNone[T any](v *T) []byte {
	raw, err := json.Marshal(v)
	if err != nil || string(raw) == "{}" {
		return []byte("null")
	}
	return raw
}

// send sends the message.
func (c *creation) send(ctx context.Context, s session.Session) (session.Session, protocol.Turn, <-chan error, error) {
	if c.input.message == nil {
		return s, protocol.Turn{}, nil, refuse("input", "'input' has no message of the user at its end.")
	}
	m := c.input.message.Clone()
	m.ID = "msg_" + c.hash + "_" + uuid.NewString()[:8]
	raw, err := session.JSON(c.facts)
	if err != nil {
		return s, protocol.Turn{}, nil, err
	}
	m.Metadata = session.Values{factsKey: raw}
	t, done, err := c.Send(ctx, s, holdfast.SendMessage{Message: &m, Tools: c.request.clientTools()}, c.request.Background)
	return s, t, done, err
}

// respond brings the results of the calls that a session waits for. The turn
// begins after the one that asked for them.
func (c *creation) respond(ctx context.Context, s session.Session, t protocol.Turn) (session.Session, protocol.Turn, <-chan error, error) {
	switch {
	case c.input.message != nil:
		return s, t, nil, refuse("input", "Send the outputs of functions first, and a message after the response to them.")
	case len(c.request.Metadata) > 0:
		return s, t, nil, refuse("metadata", "Metadata is kept with a message, and this request has none.")
	case !c.request.stored() && c.request.PreviousResponseID != "":
		return s, t, nil, refuse("store", "The outputs of stored function calls are stored.")
	}
	responses, err := c.responses(s)
	if err != nil {
		return s, t, nil, err
	}
	_, done, err := c.Respond(ctx, s, responses, c.request.Background)
	return s, t, done, err
}

// responses returns the response to each call that waits.
func (c *creation) responses(s session.Session) ([]session.Response, error) {
	given := map[string]session.Response{}
	for _, r := range c.input.responses {
		given[r.PendingID] = r
	}
	list := make([]session.Response, 0, len(given))
	for _, p := range s.PendingCalls() {
		if !p.Waiting() {
			continue
		}
		r, ok := given[p.CallID]
		if byID, found := given[p.ID]; found {
			r, ok = byID, true
		}
		if !ok {
			return nil, refuse("input", "No tool output found for function call %s.", p.CallID)
		}
		delete(given, r.PendingID)
		if p.Kind == session.PendingApproval {
			if err := c.Permit(apikey.Approve); err != nil {
				return nil, err
			}
		}
		if p.Kind == session.PendingQuestion {
			r.Action = session.RespondAnswer
		}
		r.PendingID = p.ID
		list = append(list, r)
	}
	for id, r := range given { // that do not wait: the same response again changes nothing
		if _, known := s.ResponseTo(id); !known && s.Waiting() {
			return nil, refuse("input", "There is no function call %s that waits for an output.", id)
		}
		list = append(list, r)
	}
	return list, nil
}

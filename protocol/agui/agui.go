// Package agui answers in the way of AG-UI 1.0, the protocol of agents and user
// interfaces. A thread is a session with the same id, and a run is a turn of it.
package agui

import (
	"encoding/json"
	"errors"
	"net/http"
	"slices"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/apikey"
	"github.com/holdfast-dev/holdfast/internal/problem"
	"github.com/holdfast-dev/holdfast/internal/sse"
	"github.com/holdfast-dev/holdfast/protocol"
	"github.com/holdfast-dev/holdfast/session"
)

// Protocol is the protocol.
type Protocol struct{}

// Prefix is /agui/.
func (Protocol) Prefix() string { return "/agui/" }

// Routes are the routes.
func (Protocol) Routes() []protocol.Route {
	return []protocol.Route{
		{Pattern: "POST /agui/{agent}", Scope: apikey.Write, Serve: func(x *protocol.Exchange) error { return (&exchange{Exchange: x}).run() }},
	}
}

// WriteProblem writes an error as JSON: clients show it as it is.
func (Protocol) WriteProblem(w http.ResponseWriter, p *problem.Problem) {
	protocol.SetProblemHeader(w.Header(), p, "application/json")
	w.WriteHeader(max(p.Status, http.StatusBadRequest))
	if err := json.NewEncoder(w).Encode(p); err != nil {
		return // the client is gone
	}
}

// exchange is one request and its response.
type exchange struct {
	*protocol.Exchange
	in input
}

// run carries out what a request brings: a message, or responses to calls that
// wait. One that brings nothing new shows the answer in progress, or where the
// thread stands: clients do that to resume.
func (x *exchange) run() error {
	if err := x.in.read(x.Request.Body); err != nil {
		return err
	}
	s, fresh, err := x.thread()
	if err != nil {
		return err
	}
	responses, err := x.responses(s, fresh != nil)
	if err != nil {
		return err
	}
	if fresh == nil && len(responses) == 0 {
		return x.show(s)
	}
	if err := protocol.CheckIdle(s); err != nil {
		return err
	}
	if s, err = x.storeState(s); err != nil {
		return err
	}
	var t protocol.Turn
	var done <-chan error
	if fresh != nil {
		t, done, err = x.say(s, *fresh)
	} else {
		if slices.ContainsFunc(responses, func(r response) bool { return r.subagent != "" }) {
			return x.respondBelow(s, responses)
		}
		own := make([]session.Response, len(responses))
		for i, r := range responses {
			own[i] = r.Response
		}
		t, done, err = x.Respond(x.Request.Context(), s, own, false)
	}
	if err != nil {
		return err
	}
	return x.stream(s, t, done, false)
}

// thread returns the session of the thread, and the message that it does not
// have. A new thread begins with a message.
func (x *exchange) thread() (session.Session, *message, error) {
	def, err := x.Host.Agent(x.Request.PathValue("agent"))
	if err != nil {
		return session.Session{}, nil, err
	}
	said := slices.IndexFunc(x.in.Messages, func(m message) bool { return m.Role == "user" })
	if said < 0 {
		if _, err := x.Settled(x.Request.Context(), x.in.ThreadID); errors.Is(err, session.ErrNotFound) {
			return session.Session{}, nil, protocol.Invalid("messages", "a new thread begins with a message of a user")
		}
	}
	s, err := x.Chat(x.Request.Context(), def, x.in.ThreadID, "threadId")
	if err != nil || said < 0 {
		return s, nil, err
	}
	last := x.in.Messages[len(x.in.Messages)-1]
	if last.Role != "user" || slices.ContainsFunc(s.Messages(), func(m session.Message) bool { return m.Role == session.RoleUser && m.ID == last.ID }) {
		return s, nil, nil
	}
	return s, &last, nil
}

// say sends a message, with what the application knows.
func (x *exchange) say(s session.Session, m message) (protocol.Turn, <-chan error, error) {
	content, err := m.parts()
	if err != nil {
		return protocol.Turn{}, nil, err
	}
	sent := session.Message{ID: m.ID, Role: session.RoleUser, Name: m.Name, Content: append(content, x.in.contextParts()...)}
	return x.Send(x.Request.Context(), s, holdfast.SendMessage{Message: &sent, Tools: x.in.clientTools()}, false)
}

// show sends the whole answer in progress again, and the rest as it comes. In a
// thread without one, it sends where the thread stands.
func (x *exchange) show(s session.Session) error {
	t, open, err := x.Current(x.Request.Context(), s)
	if err != nil {
		return err
	}
	if open {
		return x.stream(s, t, nil, true)
	}
	return x.withStream(s, func(e *encoder, _ *sse.Writer) error {
		e.resync(s.Seq())
		return x.finish(e, s)
	})
}

// stream sends the events of a turn. Again says that the client may have seen a
// part of it.
func (x *exchange) stream(s session.Session, t protocol.Turn, done <-chan error, again bool) error {
	return x.withStream(s, func(e *encoder, out *sse.Writer) error {
		if again {
			e.resync(t.After)
		}
		if err := x.Stream(t, out, done, e.step); err != nil {
			return err
		}
		now, err := x.Settled(x.Request.Context(), s.ID())
		if err != nil {
			return err
		}
		return x.finish(e, now)
	})
}

// finish ends the run as the session stands.
func (x *exchange) finish(e *encoder, s session.Session) error {
	waits, err := x.waiting(s, "")
	if err == nil {
		e.finish(s, waits)
	}
	return err
}

// withStream sends the events of a run between its first and its last.
func (x *exchange) withStream(s session.Session, send func(*encoder, *sse.Writer) error) error {
	return x.WriteEvents(func(out *sse.Writer) error {
		e := newEncoder(&x.in, s, func(v any) bool { return out.Send("", "", v) }, x.transcript)
		e.start()
		err := send(e, out)
		if err != nil && x.Request.Context().Err() == nil {
			e.fail(problem.Of(err).Detail, problem.Of(err).Code)
		}
		return err
	})
}

// transcript returns the messages of the thread to a change.
func (x *exchange) transcript(to int64) ([]message, error) {
	s, err := x.Runtime.Get(x.Request.Context(), x.in.ThreadID, holdfast.WithTail())
	if err != nil {
		return nil, err
	}
	return x.in.messagesOf(s, to), nil
}

package openai

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"sync"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/protocol"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

// chatKey is where the metadata of a session has the hash of how its chat begins.
const chatKey = "openai.chat"

// maxCandidates is how many sessions with the same beginning are compared.
const maxCandidates = 50

// chatHistory finds the session of a client that sends the whole history with
// each request. A history that is resent continues its session, an edited one
// forks it at the last thing that both have in common.
type chatHistory struct {
	*creation
}

// line is something that such a client sees of a session.
type line struct {
	role  session.Role
	text  string
	calls string // the ids of the calls of an assistant, or of the call of a result
	seq   int64  // where it ends
}

func (l line) same(other line) bool {
	return l.role == other.role && l.text == other.text && l.calls == other.calls
}

// lines returns what a client sees of messages. Tools that the server ran are not
// among it; the calls that the client mentions are its own.
func lines(messages []session.Message, own map[string]bool) []line {
	var list []line
	for _, m := range messages {
		l := line{role: m.Role, text: m.Content.Text(), seq: m.Seq}
		switch {
		case m.ToolResult != nil && !own[m.ToolResult.CallID]:
			if n := len(list); n > 0 {
				list[n-1].seq = m.Seq
			}
			continue
		case m.ToolResult != nil:
			l.text, l.calls = m.ToolResult.Content, m.ToolResult.CallID
		}
		for _, call := range m.ToolCalls {
			if own[call.ID] {
				l.calls += call.ID + " "
			}
		}
		if n := len(list); n > 0 && m.Role == session.RoleAssistant && list[n-1].role == session.RoleAssistant && list[n-1].calls == "" {
			before := list[n-1]
			if before.text != "" && l.text != "" {
				l.text = before.text + chatGap + l.text
			}
			l.text = cmp.Or(l.text, before.text)
			list = list[:n-1]
		}
		list = append(list, l)
	}
	return list
}

// candidate is a session that begins as the history does.
type candidate struct {
	session session.Session
	lines   []line
	common  int // lines
}

// begin begins the turn, or finds the one that nobody has got the answer of.
func (h *chatHistory) begin(ctx context.Context) (s session.Session, t protocol.Turn, done <-chan error, err error) {
	said := slices.Clone(h.input.earlier)
	own := map[string]bool{}
	for _, r := range h.input.responses {
		own[r.PendingID] = true
	}
	for _, m := range said {
		for _, call := range m.ToolCalls {
			own[call.ID] = true
		}
	}
	earlier := lines(said, own)
	now := line{}
	if h.input.message != nil {
		now = line{role: session.RoleUser, text: h.input.message.Content.Text()}
	}
	root := h.root(append(slices.Clone(earlier), now)[0])
	var best *candidate
	if h.request.stored() {
		list, err := h.candidates(ctx, root, own, len(earlier) == 0)
		if err != nil {
			return s, t, nil, err
		}
		for _, c := range list {
			for c.common < min(len(c.lines), len(earlier)) && c.lines[c.common].same(earlier[c.common]) {
				c.common++
			}
			if c.common == len(earlier) {
				if s, t, done, found, err := h.continues(ctx, c, now); found || err != nil {
					return s, t, done, err
				}
			}
			if best == nil || c.common > best.common {
				best = c
			}
		}
	}
	if best != nil && h.input.message != nil {
		if s, found, err := h.fork(ctx, best, said, own); err != nil {
			return s, t, nil, err
		} else if found {
			h.input.earlier = nil
			return h.say(ctx, s)
		}
	}
	return h.beginNew(ctx, root)
}

// root is the hash of how a chat begins.
func (h *chatHistory) root(first line) string {
	prompt := ""
	if h.request.Instructions != nil {
		prompt = *h.request.Instructions
	}
	sum := sha256.Sum256([]byte(h.request.Model + "\n" + prompt + "\n" + string(first.role) + "\n" + first.text))
	return hex.EncodeToString(sum[:16])
}

func (h *chatHistory) candidates(ctx context.Context, root string, own map[string]bool, recent bool) ([]*candidate, error) {
	q := store.Query{Metadata: map[string]string{chatKey: root}, Limit: maxCandidates}
	if recent { // without an answer in it, the history names no session
		q.UpdatedAfter = h.Now().Add(-repeatWindow)
	}
	page, err := h.Runtime.List(ctx, q)
	if err != nil {
		return nil, err
	}
	var list []*candidate
	for _, info := range page.Items {
		s, err := h.Settled(ctx, info.ID, holdfast.Whole())
		if err != nil {
			return nil, err
		}
		list = append(list, &candidate{session: s, lines: lines(s.Messages(), own)})
	}
	return list, nil
}

// continues goes on in a session that has the whole history: with what is said
// now, or with the turn that has begun with it.
func (h *chatHistory) continues(ctx context.Context, c *candidate, now line) (s session.Session, t protocol.Turn, done <-chan error, found bool, err error) {
	s, rest := c.session, c.lines[c.common:]
	if h.input.message == nil {
		t = protocol.Turn{SessionID: s.ID(), After: s.Seq()}
		if len(rest) > 0 || !s.Waiting() {
			return s, t, nil, false, nil
		}
		s, t, done, err = h.respond(ctx, s, t)
		return s, t, done, true, err
	}
	if len(rest) == 0 && !s.Running() && c.common > 0 {
		h.input.earlier = nil
		s, t, done, err = h.say(ctx, s)
		return s, t, done, true, err
	}
	if len(rest) == 0 || len(rest) > 2 || !rest[0].same(now) {
		return s, t, nil, false, nil
	}
	t = protocol.Turn{SessionID: s.ID(), After: rest[0].seq - 1}
	if !h.repeated() {
		if lost, err := h.lost(ctx, t, s.Running()); !lost {
			return s, t, nil, false, err
		}
	}
	if _, live, err := h.Runtime.Holder(ctx, s.ID()); err == nil && !live && s.Running() && !s.Waiting() {
		if done, err = h.Continue(ctx, s.ID(), false); err != nil {
			return s, t, nil, true, err
		}
	}
	return s, t, done, true, nil
}

// lost reports a turn whose answer nobody has got: it is in progress without a
// reader, or another process had to finish it.
func (h *chatHistory) lost(ctx context.Context, t protocol.Turn, running bool) (bool, error) {
	if running {
		return !h.attended.has(t), nil
	}
	steps, _, err := h.Read(ctx, t)
	for _, s := range steps {
		if c, ok := s.Record.Change.(session.ExecutionContinued); ok && c.Recovery {
			return h.Now().Sub(s.Record.At) < repeatWindow, err
		}
	}
	return false, err
}

// fork starts a session with what the history has in common with another, and
// adds the rest of the history.
func (h *chatHistory) fork(ctx context.Context, c *candidate, said []session.Message, own map[string]bool) (s session.Session, found bool, err error) {
	s = c.session
	n := c.common
	for n > 0 && (c.lines[n-1].role != session.RoleAssistant || c.lines[n-1].calls != "") {
		n--
	}
	if n == 0 {
		return s, false, nil
	}
	at := c.lines[n-1].seq
	if from := s.Info().Fork; from != nil && at <= from.Seq { // it has this from another session
		return s, false, nil
	}
	version := int64(0)
	for e, err := range h.Runtime.Log(ctx, s.ID(), at-1) {
		if err != nil {
			return s, false, err
		}
		version = e.Version
		break
	}
	if version == 0 {
		return s, false, nil
	}
	rest := said
	for len(rest) > 0 && len(lines(said[:len(said)-len(rest)], own)) < n {
		rest = rest[1:]
	}
	changes := make([]session.Change, len(rest))
	for i, m := range rest {
		m.ID = uuid.NewString()
		changes[i] = session.MessageAdded{Message: m}
	}
	fork, err := h.Runtime.Fork(ctx, s.ID(), holdfast.At(version), holdfast.WithChanges(changes...))
	if err != nil {
		return s, false, err
	}
	s, err = h.Settled(ctx, fork.ID())
	return s, true, err
}

// beginNew begins a session with the history.
func (h *chatHistory) beginNew(ctx context.Context, root string) (session.Session, protocol.Turn, <-chan error, error) {
	raw, err := session.JSON(root)
	if err != nil {
		return session.Session{}, protocol.Turn{}, nil, err
	}
	h.metadata = session.Values{chatKey: raw}
	return h.inNew(ctx)
}

// attended are the turns whose readers are connected to this node.
type attended struct {
	mu    sync.Mutex
	turns map[protocol.Turn]int // guarded by mu
}

// add notes a reader until it is removed.
func (a *attended) add(t protocol.Turn) (remove func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.turns[t]++
	return func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		if a.turns[t]--; a.turns[t] == 0 {
			delete(a.turns, t)
		}
	}
}

func (a *attended) has(t protocol.Turn) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.turns[t] > 0
}

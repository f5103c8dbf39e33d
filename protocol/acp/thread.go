package acp

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	holdfast "github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/session"
)

// thread is a session that the editor has open.
type thread struct {
	Workspace
	*view
	s      *server
	id     string
	titled bool          // it has a name; guarded by turns
	turns  chan struct{} // holds a value while a turn runs
	stop   context.CancelFunc

	mu   sync.Mutex // guards what follows
	turn *turn      // the one that runs
}

// turn is one prompt, or the rest of one that was interrupted.
type turn struct {
	over      chan struct{}
	cancels   sync.Mutex         // held while the session is told to cancel, and when the turn ends: never is the next turn told
	ask       context.CancelFunc // ends the wait for a person
	cancelled bool               // guarded by the thread's mu
	taken     bool               // nobody asked for it: a prompt takes its place while it waits for a person
}

func (s *server) newThread(id, dir string, w Workspace) *thread {
	return &thread{Workspace: w, view: newView(s, id, dir, w.Modes), s: s, id: id, turns: make(chan struct{}, 1), stop: func() {}}
}

// follow shows what happens to the session from now on.
func (t *thread) follow(ctx context.Context) {
	ctx, t.stop = context.WithCancel(ctx)
	t.s.work.Go(func() { t.view.follow(ctx, t.Sessions) })
}

// close ends the following. It waits for the turn: what a turn needs is not
// closed under it.
func (t *thread) close() error {
	t.stop()
	t.turns <- struct{}{}
	return t.Workspace.close()
}

// begin waits until no other turn runs, and begins one. The context it returns
// ends the wait for a person.
func (t *thread) begin(ctx context.Context, taken bool) (*turn, context.Context, error) {
	t.mu.Lock()
	if t.turn != nil && t.turn.taken {
		t.turn.ask()
	}
	t.mu.Unlock()
	select {
	case t.turns <- struct{}{}:
	case <-ctx.Done():
		return nil, nil, context.Cause(ctx)
	}
	asking, cancel := context.WithCancel(ctx)
	now := &turn{over: make(chan struct{}), ask: cancel, taken: taken}
	t.mu.Lock()
	t.turn = now
	t.mu.Unlock()
	return now, asking, nil
}

func (t *thread) finish(now *turn) {
	t.mu.Lock()
	t.turn = nil
	t.mu.Unlock()
	now.cancels.Lock()
	close(now.over)
	now.cancels.Unlock()
	now.ask()
	<-t.turns
}

// cancelRetry is the wait before a turn is cancelled again that had not begun.
const cancelRetry = 20 * time.Millisecond

// markCancelled marks the turn that runs as cancelled, and returns it. An editor
// dismisses what it was asked right after it cancels: the mark is set before that
// is read.
func (t *thread) markCancelled() *turn {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.turn != nil {
		t.turn.cancelled = true
		t.turn.ask()
	}
	return t.turn
}

// cancelTurn cancels a turn that is marked, and returns when it is over. A turn
// that has not begun to execute is cancelled once it has.
func (t *thread) cancelTurn(ctx context.Context, now *turn) {
	if now == nil {
		return
	}
	for {
		err := t.tellCancel(ctx, now)
		wait := cancelRetry
		if !errors.Is(err, session.ErrNothingToDo) { // it was told, or it cannot be
			wait = time.Hour
		}
		select {
		case <-now.over:
			return
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
	}
}

// tellCancel tells the session to cancel, unless the turn is over.
func (t *thread) tellCancel(ctx context.Context, now *turn) error {
	now.cancels.Lock()
	defer now.cancels.Unlock()
	select {
	case <-now.over:
		return nil
	default:
		return t.Cancel(ctx, t.id)
	}
}

// The reasons for the end of a turn.
const (
	endTurn       = "end_turn"
	endTokens     = "max_tokens"
	endSteps      = "max_turn_requests"
	endRefusal    = "refusal"
	endCancelled  = "cancelled"
	finishLength  = "length"
	finishRefused = "content_filter"
)

func (s *server) prompt(ctx context.Context, in promptRequest) (promptResponse, error) {
	t, err := s.thread(in.SessionID)
	if err != nil {
		return promptResponse{}, err
	}
	content, err := partsOf(in.Prompt)
	if err != nil {
		return promptResponse{}, err
	}
	now, asking, err := t.begin(ctx, false)
	if err != nil {
		return promptResponse{}, err
	}
	defer t.finish(now)
	command, argument, isCommand := findCommand(content)
	if command.say != nil {
		text, err := command.say(t, ctx, argument)
		if err == nil {
			err = t.say(text)
		}
		return promptResponse{StopReason: endTurn}, err
	}
	action := command.turn
	if !isCommand {
		if err := t.title(ctx, content.Text()); err != nil {
			return promptResponse{}, err
		}
		if action, err = t.actionFor(ctx, content); err != nil {
			return promptResponse{}, err
		}
	}
	reason, err := t.run(ctx, asking, now, action)
	return promptResponse{StopReason: reason}, err
}

// maxTitle is how long the name is that a session gets from its first prompt.
const maxTitle = 60

// title names a session after its first prompt, so that listings say what it
// is about.
func (t *thread) title(ctx context.Context, text string) error {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	name := []rune(strings.Join(strings.Fields(line), " "))
	if t.titled || len(name) == 0 {
		return nil
	}
	if len(name) > maxTitle {
		name = append(name[:maxTitle-1], '…')
	}
	t.titled = true
	if _, err := t.Execute(ctx, t.id, holdfast.RenameSession{To: string(name)}); err != nil {
		return err
	}
	return t.s.update(t.id, infoUpdate{"session_info_update", string(name)})
}

// actionFor returns what a prompt means: the answer to a question that the
// session waits for, else a message.
func (t *thread) actionFor(ctx context.Context, content session.Content) (holdfast.Action, error) {
	s, err := t.Get(ctx, t.id, holdfast.WithTail())
	if err != nil {
		return nil, err
	}
	if calls := waitingCalls(s); s.Waiting() && len(calls) == 1 && calls[0].Kind == session.PendingQuestion && calls[0].ChildID == "" {
		answer := session.Response{PendingID: calls[0].ID, Action: session.RespondAnswer, Text: strings.TrimSpace(content.Text())}
		if calls[0].Check(answer) == nil {
			return holdfast.ContinueExecution{}, t.Respond(ctx, t.id, answer)
		}
	}
	m := session.Message{ID: uuid.NewString(), Role: session.RoleUser, Content: content}
	t.hide(m.ID) // the editor shows what was typed there
	return holdfast.SendMessage{Message: &m}, nil
}

// takeUp continues a session that was interrupted, or asks again what it waits
// for. Somebody else who works on it is left alone.
func (t *thread) takeUp(ctx context.Context) {
	s, err := t.Get(ctx, t.id, holdfast.WithTail())
	if err != nil || !s.Running() && !s.HasTail() {
		return
	}
	now, asking, err := t.begin(ctx, true)
	if err != nil {
		return
	}
	defer t.finish(now)
	_, err = t.run(ctx, asking, now, nil)
	if err != nil && ctx.Err() == nil && !errors.Is(err, session.ErrBusy) && !errors.Is(err, session.ErrNothingToDo) {
		_ = t.say("The interrupted turn cannot be continued: " + err.Error()) // a connection that is gone needs no text
	}
}

// run executes an action and asks about the calls that wait, until the turn is
// over. Without an action it takes up what there is.
func (t *thread) run(ctx, asking context.Context, now *turn, a holdfast.Action) (reason string, err error) {
	var s session.Session
	if a == nil {
		if s, err = t.Get(ctx, t.id, holdfast.WithTail()); err == nil && !s.Waiting() {
			s, err = t.Execute(ctx, t.id, holdfast.ContinueExecution{}, holdfast.OnBusy(holdfast.Reject))
		}
	} else {
		s, err = t.Execute(ctx, t.id, a)
	}
	for err == nil && s.Waiting() {
		if err := t.caughtUp(ctx, s.Seq()); err != nil { // the call is shown before it is asked about
			return "", err
		}
		answered, asked := t.ask(asking, t.id)
		switch {
		case asked != nil && asking.Err() == nil:
			return "", asked
		case t.wasCancelled(now):
			return endCancelled, t.settleCancel(ctx)
		case !answered:
			return endTurn, nil
		}
		s, err = t.Execute(ctx, t.id, holdfast.ContinueExecution{})
	}
	if err == nil || errors.Is(err, session.ErrExecutionFailed) { // it was saved
		err = cmp.Or(t.caughtUp(ctx, s.Seq()), err)
	}
	if err != nil {
		return "", err
	}
	return stopReason(s), nil
}

func (t *thread) wasCancelled(now *turn) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return now.cancelled
}

// settleCancel ends an execution that waits. Whoever cancelled it may have done
// so already.
func (t *thread) settleCancel(ctx context.Context) error {
	if err := t.Cancel(ctx, t.id); err != nil && !errors.Is(err, session.ErrNothingToDo) {
		return err
	}
	return nil
}

// stopReason says why a turn ended.
func stopReason(s session.Session) string {
	e := s.Execution()
	if e == nil {
		return endTurn
	}
	finish := ""
	if n := len(e.Steps); n > 0 {
		finish = e.Steps[n-1].FinishReason
	}
	if e.Stop != nil {
		switch e.Stop.Reason {
		case session.StopUserRequested:
			return endCancelled
		case session.StopTokens:
			return endTokens
		case session.StopSteps, session.StopTime, session.StopCost, session.StopDeadline, session.StopRetries:
			return endSteps
		}
	}
	switch finish {
	case finishLength:
		return endTokens
	case finishRefused:
		return endRefusal
	}
	return endTurn
}

package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/internal/display"
	"github.com/holdfast-dev/holdfast/internal/setup"
	"github.com/holdfast-dev/holdfast/internal/terminal"
	"github.com/holdfast-dev/holdfast/session"
)

// checkCanSend refuses what the session would refuse, before it takes the lease.
func checkCanSend(i session.Info, text string) error {
	if i.Status != session.Active {
		return &session.StatusError{ID: i.ID, Status: i.Status, Action: holdfast.SendMessage{}.Name()}
	}
	if strings.TrimSpace(text) == "" {
		return &session.InvalidError{Field: "message", Reason: "it is blank"}
	}
	return nil
}

// turn executes one turn of a conversation and shows the answer: word by word
// and with what tools do where that is asked for, else whole.
func (p *program) turn(ctx context.Context, e *setup.Env, id string, a holdfast.Action, stream bool, opts ...holdfast.Option) (session.Session, error) {
	before, err := e.Get(ctx, id, holdfast.WithTail())
	if err != nil {
		return before, err
	}
	var s session.Session
	spoke := false
	if stream {
		s, spoke, err = p.executeShown(ctx, e, before, a, opts)
	} else {
		s, err = e.Execute(ctx, id, a, opts...)
	}
	if err != nil && !s.IsZero() {
		err = e.Explain(err, s.Definition(), s.Model())
	}
	if err != nil {
		return s, err
	}
	if p.Out.Gone {
		return s, terminal.ErrReaderGone
	}
	if err := checkWaiting(s); err != nil {
		return s, err
	}
	if spoke {
		return s, checkStopped(s)
	}
	return s, p.printReplies(s, before.Seq())
}

// printReplies prints the answers that a turn gave after a change: one, and one
// for each message that arrived meanwhile. A call that was repeated gave none: its
// answer is printed again. The error of a turn that was stopped follows them.
func (p *program) printReplies(s session.Session, after int64) error {
	if p.JSON {
		return checkStopped(s)
	}
	var replies []string
	for _, m := range s.MessagesFrom(after + 1) {
		if text := m.Content.Text(); m.Role == session.RoleAssistant && len(m.ToolCalls) == 0 && strings.TrimSpace(text) != "" {
			replies = append(replies, text)
		}
	}
	if reply := s.Reply(); len(replies) == 0 && reply != "" {
		replies = []string{reply}
	}
	for _, text := range replies {
		if err := p.Out.Print(p.ForOutput(text) + "\n"); err != nil {
			return fmt.Errorf("%w; the answer was saved, see: holdfast sessions show %s", err, display.ShortID(s.ID()))
		}
	}
	return checkStopped(s)
}

// executeShown executes a turn and shows it while it runs. Printed says that
// an answer was shown.
func (p *program) executeShown(ctx context.Context, e *setup.Env, before session.Session, a holdfast.Action, opts []holdfast.Option) (s session.Session, printed bool, err error) {
	n := display.NewTurnView(p.Console, before)
	defer n.End()
	follow, cancel := context.WithCancel(ctx)
	heard, over := make(chan struct{}, 1), make(chan struct{})
	updates := e.Follow(follow, before.ID(), before.Seq())
	go func() {
		defer close(over)
		for u, err := range updates {
			if err != nil {
				return // the turn does not depend on it, and has the answer
			}
			n.Take(u)
			select {
			case heard <- struct{}{}:
			default:
			}
		}
	}()
	s, err = e.Execute(ctx, before.ID(), a, opts...)
	late := time.NewTimer(display.Hearing)
	defer late.Stop()
	for waits := true; waits && n.IsBehind(s); {
		select {
		case <-heard:
		case <-over:
			waits = false
		case <-late.C:
			waits = false
		}
	}
	cancel()
	<-over
	if n.IsBehind(s) {
		n.CatchUp(s)
	}
	return s, n.Printed, err
}

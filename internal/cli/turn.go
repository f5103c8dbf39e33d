package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/holdfast-dev/holdfast"
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
func (p *program) turn(ctx context.Context, e *env, id string, a holdfast.Action, stream bool, opts ...holdfast.Option) (session.Session, error) {
	spoke := false
	var (
		s   session.Session
		err error
	)
	if stream {
		s, spoke, err = p.executeShown(ctx, e, id, a, opts)
	} else {
		s, err = e.Execute(ctx, id, a, opts...)
	}
	if err != nil && !s.IsZero() {
		err = e.explain(err, s.Definition(), s.Model())
	}
	if err != nil {
		return s, err
	}
	if p.out.gone {
		return s, errReaderGone
	}
	if err := checkWaiting(s); err != nil {
		return s, err
	}
	if spoke {
		return s, checkStopped(s)
	}
	return s, p.printReply(s)
}

// printReply prints the answer of a turn as a whole. The error of a turn that
// was stopped follows it.
func (p *program) printReply(s session.Session) error {
	if reply := s.Reply(); !p.json && reply != "" {
		if err := p.out.print(p.forOutput(reply) + "\n"); err != nil {
			return err
		}
	}
	return checkStopped(s)
}

// forOutput returns text as standard output gets it: as it is, unless it is a terminal.
func (p *program) forOutput(text string) string {
	if p.out.terminal {
		return printable(text)
	}
	return text
}

// savedText says what is safe now.
func savedText(i session.Info) string {
	return fmt.Sprintf("saved · version %d · %s · id %s", i.Version, countOf(i.MessageCount, "message"), shortID(i.ID))
}

// spentText returns what something used, "" where that is nothing. A price that is
// not known is left out.
func spentText(u session.Usage, c session.Cost) string {
	if u.Input+u.Output == 0 {
		return ""
	}
	text := fmt.Sprintf("%d tokens in, %d out", u.Input, u.Output)
	if c > 0 {
		text += " · $" + c.String()
	}
	return text
}

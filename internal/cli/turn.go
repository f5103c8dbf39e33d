package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/llm"
	"github.com/holdfast-dev/holdfast/session"
)

// speakable refuses, before the lease is asked for, what the session would.
func speakable(i session.Info, text string) error {
	if i.Status != session.Active {
		return &session.StatusError{ID: i.ID, Status: i.Status, Action: holdfast.SendMessage{}.Name()}
	}
	if strings.TrimSpace(text) == "" {
		return &session.InvalidError{Field: "message", Reason: "it is blank"}
	}
	return nil
}

// turn executes one turn of a conversation and shows the answer: word by word
// where a person watches, and whole where a program reads.
func (p *program) turn(ctx context.Context, h *home, id string, a holdfast.Action, stream bool, opts ...holdfast.Option) (session.Session, error) {
	shown := false
	if stream {
		opts = append(opts, holdfast.Stream(func(d llm.Delta) {
			if d.Text != "" {
				shown = true
				fmt.Fprint(p.out, p.shown(d.Text))
			}
		}))
	}
	s, err := h.Execute(ctx, id, a, opts...)
	if shown {
		fmt.Fprintln(p.out)
	}
	if err != nil {
		return s, err
	}
	if p.out.gone {
		return s, errReaderGone
	}
	if reply := s.Reply(); !shown && !p.json && reply != "" {
		if err := p.out.print(p.shown(reply) + "\n"); err != nil {
			return s, err
		}
	}
	return s, stopped(s)
}

// shown is text as standard output gets it: as it is, unless it is a terminal.
func (p *program) shown(text string) string {
	if p.out.terminal {
		return printable(text)
	}
	return text
}

// savedText says what is safe now.
func savedText(i session.Info) string {
	return fmt.Sprintf("saved · version %d · %s · id %s", i.Version, quantity(i.MessageCount, "message"), shortID(i.ID))
}

package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/internal/setup"
	"github.com/holdfast-dev/holdfast/session"
)

func (p *program) sendCommand() *cobra.Command {
	var (
		ifVersion        int64
		key, busy, model string
		goOn             bool
		stream           bool
	)
	cmd := &cobra.Command{
		Use: "send REF TEXT", Short: "send one message and print the answer; - reads standard input", Args: cobra.RangeArgs(1, 2),
		Long: `Send one message to a session and print the answer. A turn that was interrupted is
continued first; with --continue and no TEXT that is all, so that no message is sent twice.
With --stream the answer is printed while the model writes it, with the work of tools on
standard error; a terminal always shows both. With --json: the session document after the turn.

--file attaches files, such as images.

With --model another model answers from now on, as after "holdfast sessions set-model":
that makes a version of its own before the turn.

A tool call that no rule allows waits for your response: a terminal asks for it, elsewhere
the exit code is 19 and "holdfast respond" continues.

` + refHelp,
	}
	files := addFileFlag(cmd)
	cmd.RunE = p.OnSession(func(ctx context.Context, e *setup.Env, i session.Info, args []string) error {
		if stream && p.JSON {
			return &session.InvalidError{Field: "stream", Reason: "--json prints the document at the end; give either --stream or --json"}
		}
		action, err := p.chooseAction(ctx, i, args, *files, goOn)
		if err != nil {
			return err
		}
		way, err := holdfast.ParseBusy(busy)
		if err != nil {
			return err
		}
		var seen *int64
		if cmd.Flags().Changed("if-version") {
			seen = &ifVersion
		}
		if model != "" {
			if i, err = p.switchModel(ctx, e, i, model, way, &seen); err != nil {
				return err
			}
		}
		var opts []holdfast.Option
		if seen != nil {
			opts = append(opts, holdfast.IfVersion(*seen))
		}
		if cmd.Flags().Changed("key") {
			opts = append(opts, holdfast.IdempotencyKey(key))
		}
		if way == holdfast.Wait && !p.JSON {
			if _, busy, err := e.Holder(ctx, i.ID); err == nil && busy {
				p.Err.Status("the session is running a turn: waiting for its end; --on-busy enqueue leaves the message in its inbox")
			}
		}
		return p.sendTurn(ctx, e, i, action, stream, append(opts, holdfast.OnBusy(way))...)
	})
	f := cmd.Flags()
	f.Int64Var(&ifVersion, "if-version", 0, "send only if the session is at `VERSION`")
	f.StringVar(&key, "key", "", "idempotency `KEY`: a second call with it does nothing (needs a store with keys)")
	f.StringVar(&model, "model", "", "the `MODEL` that answers from now on, as provider/model")
	f.BoolVar(&goOn, "continue", false, "only continue what was interrupted, without TEXT")
	f.BoolVar(&stream, "stream", false, "print the answer while the model writes it")
	f.StringVar(&busy, "on-busy", "wait", "what to do when the session is running a turn: `HOW` is wait, reject, enqueue or interrupt")
	return p.AddPermissionFlags(cmd)
}

// switchModel has another model answer from now on, if it is another. Whoever
// asked for a version gets the one that this makes.
func (p *program) switchModel(ctx context.Context, e *setup.Env, i session.Info, model string, way holdfast.Busy, seen **int64) (session.Info, error) {
	if way == holdfast.Enqueue {
		return i, &session.InvalidError{Field: "model", Reason: "an enqueued message is answered by the model that the session has then; give either --model or --on-busy enqueue"}
	}
	s, err := e.Get(ctx, i.ID)
	if err != nil || s.Model() == model {
		return i, err
	}
	opts := []holdfast.Option{holdfast.OnBusy(way)}
	if *seen != nil {
		opts = append(opts, holdfast.IfVersion(**seen))
	}
	if s, err = e.Execute(ctx, i.ID, holdfast.ChangeModel{Model: model}, opts...); err != nil {
		return i, e.Explain(err, session.Definition{}, model)
	}
	if *seen != nil {
		made := s.Version()
		*seen = &made
	}
	return s.Info(), nil
}

// sendTurn runs one turn for a script: the answer, or the session document.
func (p *program) sendTurn(ctx context.Context, e *setup.Env, i session.Info, a holdfast.Action, stream bool, opts ...holdfast.Option) error {
	before, err := e.Get(ctx, i.ID, holdfast.WithTail())
	if err != nil {
		return err
	}
	work, err := e.WorkOn(ctx, before)
	if err != nil {
		return err
	}
	if work.Interrupted {
		p.Err.Status("continuing what was interrupted")
	}
	e.EmbedForRecall(ctx, before)
	s, err := p.converse(ctx, e, i.ID, a, (stream || p.Out.Terminal) && !p.JSON, p.ReadLine(ctx), opts...)
	if p.JSON && !s.IsZero() && (err == nil || s.Version() > i.Version) {
		if err := p.PrintJSON(s); err != nil {
			return err
		}
	}
	return err
}

// chooseAction returns the action of a command line: send a message, or continue.
func (p *program) chooseAction(ctx context.Context, i session.Info, args, files []string, goOn bool) (holdfast.Action, error) {
	if goOn != (len(args) == 0) {
		return nil, &session.InvalidError{Field: "text", Reason: "give either a text or --continue"}
	}
	if goOn && len(files) > 0 {
		return nil, &session.InvalidError{Field: "file", Reason: "goes with a text; --continue sends no message"}
	}
	if goOn {
		return holdfast.ContinueExecution{}, nil
	}
	text, err := p.ReadText(ctx, args[0])
	if err != nil {
		return nil, err
	}
	if err := checkCanSend(i, text); err != nil {
		return nil, err
	}
	attached, err := readAttachments(files)
	return newMessage(text, attached), err
}

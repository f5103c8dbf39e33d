package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/definition"
	"github.com/holdfast-dev/holdfast/internal/display"
	"github.com/holdfast-dev/holdfast/internal/setup"
	"github.com/holdfast-dev/holdfast/internal/terminal"
	"github.com/holdfast-dev/holdfast/llm/offline"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

func (p *program) chatCommand() *cobra.Command {
	var (
		agent, name, ref, model string
		last                    bool
	)
	cmd := &cobra.Command{
		Use: "chat", Short: "talk to an agent; the session is saved as you go",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return fmt.Errorf("chat takes no argument %q; continue a session with --session %s, or send one message with: holdfast send REF \"…\"", args[0], args[0])
			}
			return nil
		},
		Long: `Talk to an agent. Every turn is saved before the next begins. Ctrl-C interrupts an
answer, Ctrl-D leaves; "holdfast chat --session REF" continues. At a terminal you can edit
the text, Alt-Enter or a backslash at the end begins another line, the up key brings earlier
messages back, Ctrl-R searches them, and what you paste keeps its lines. What you type during
an answer is kept, and sent after it if you press Enter. @FILE in a message
attaches a file, and so does /attach. What AGENTS.md of the workspace says becomes part of
the prompt of a new session.

The agent may read files in the workspace; the --allow flags offer it more tools. A call
that no rule and no mode allows waits for your response: a terminal asks you, elsewhere the
exit code is 19 and "holdfast respond" continues. --model takes any model that "holdfast
models list" shows.

From a pipe each line is a message and each answer goes to standard output. With
--json every message of the conversation is printed as it is saved, one per line.

` + refHelp,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if (ref != "" || last) && (agent != "" || name != "" || p.User != "") {
				return &session.InvalidError{Field: "session", Reason: "an existing session keeps its agent, name and user; --agent, --name and --user are for new sessions"}
			}
			ctx := cmd.Context()
			return p.WithEnv(ctx, func(e *setup.Env) error {
				c := &chat{program: p, e: e}
				ref, err := p.chooseChat(ctx, e, ref, last)
				if err != nil {
					return err
				}
				if err := c.open(ctx, ref, agent, name, model); err != nil {
					return err
				}
				return c.run(ctx)
			})
		},
	}
	p.addNewChatFlags(cmd, &agent, &name, &model)
	cmd.Flags().StringVar(&ref, "session", "", "continue the session `REF`; without REF a terminal lets you choose")
	cmd.Flags().BoolVar(&last, "last", false, "continue the chat that was used last")
	return p.AddPermissionFlags(cmd)
}

// chat is one conversation at a terminal or over a pipe.
type chat struct {
	*program
	e          *setup.Env
	editor     *terminal.Editor // nil: lines are read as they come
	info       session.Info
	last       int64 // number of the last message that was printed
	used       session.Usage
	cost       session.Cost
	unfinished error          // why the last turn has no answer yet: interrupted, or calls wait
	ended      bool           // the program was asked to end, not only the turn
	attached   []session.Part // to the next message
	typed      terminal.Typed // while the last turn ran
	composer   *terminal.Composer
}

// open makes a session or comes back to one.
func (c *chat) open(ctx context.Context, ref, agent, name, model string) error {
	if ref != "" {
		return c.reopen(ctx, ref, model)
	}
	s, err := c.newChat(ctx, c.e, agent, name, model)
	if err != nil {
		return err
	}
	c.e.EmbedForRecall(ctx, s)
	c.setSession(s)
	c.Err.Status("new session %s · agent %s", display.Title(c.info), c.info.AgentName)
	return c.printIntroduction(ctx, s)
}

func (c *chat) reopen(ctx context.Context, ref, model string) error {
	info, err := c.e.Resolve(ctx, ref)
	if err != nil {
		return err
	}
	s, err := c.e.Get(ctx, info.ID, holdfast.WithTail())
	if err != nil {
		return err
	}
	if err := checkCanSend(s.Info(), "anything"); err != nil {
		return err
	}
	if model != "" && model != s.Model() {
		if _, err := c.e.Execute(ctx, info.ID, holdfast.ChangeModel{Model: model}); err != nil {
			return c.e.Explain(err, session.Definition{}, model)
		}
		if s, err = c.e.Get(ctx, info.ID, holdfast.WithTail()); err != nil {
			return err
		}
	}
	c.e.EmbedForRecall(ctx, s)
	c.setSession(s)
	c.Err.Status("session %s · agent %s · version %d · %s", display.Title(c.info), c.info.AgentName, c.info.Version, terminal.CountOf(c.info.MessageCount, "message"))
	if err := c.printIntroduction(ctx, s); err != nil {
		return err
	}
	if c.In.Terminal && c.Out.Terminal && !c.JSON {
		fmt.Fprintln(c.Out, strings.TrimPrefix(display.LastMessages(c.Out, c.Now(), s, 4), "\n"))
	}
	work, err := c.e.WorkOn(ctx, s)
	if err != nil {
		return err
	}
	switch waits := checkWaiting(s); {
	case work.Interrupted:
		c.unfinished = &session.InterruptedError{ID: s.ID(), Seq: s.Seq()}
		c.Err.Status("it was interrupted: continuing")
	case work.Holder == "" && waits != nil:
		c.unfinished = waits
		c.Err.Status("it waits for %s", display.WaitsFor(display.WaitingCalls(s)[0]))
	case work.Holder != "":
		c.Err.Status("%s is running a turn of it; your messages wait until that ends", display.HolderText(work.Holder))
	}
	return nil
}

// loadAgent returns the definition of a new session: from a file, by a name of the
// registry, or the assistant.
func (p *program) loadAgent(ctx context.Context, e *setup.Env, given string) (session.Definition, error) {
	byName := filepath.Ext(given) == "" && !strings.ContainsAny(given, `/\`)
	switch {
	case given == "":
		return assistant(), nil
	case byName && e.Server != nil:
		return e.Server.Agent(ctx, given)
	case byName:
		return p.Registry().Get(given)
	}
	return definition.Load(given)
}

// assistant returns the agent of a chat that names none.
func assistant() session.Definition {
	return session.Definition{
		Name: "assistant", Label: "Assistant", Description: "Answers questions.",
		SystemPrompt: "You are a helpful assistant. Answer briefly.",
	}
}

// printIntroduction says what a newcomer must know: who answers, what it may do here,
// and how to leave.
func (c *chat) printIntroduction(ctx context.Context, s session.Session) error {
	model := c.e.ModelOf(s)
	switch {
	case c.e.Server != nil || model != offline.Name:
		tools, err := c.e.ToolNames(ctx)
		if err != nil {
			return err
		}
		where := ""
		if c.e.Server != nil {
			where = ", on the server"
		}
		c.Err.Status("%s answers%s · tools: %s", model, where, cmp.Or(c.ToolNames(tools, s.Definition()), "none"))
	case len(c.UsableProviders(c.e.Models.Providers.Catalog)) > 0:
		c.Err.Status("the built-in offline model answers: it only repeats what you say; choose another with --model, see: holdfast models list")
	default:
		c.Err.Status("no model provider is configured: the built-in offline model answers: it only repeats what you say")
	}
	if _, asks := c.e.Store.(store.Inboxes); asks && (c.Permissions.OffersEffects() || c.Permissions.Mode != "") {
		c.Err.Status("permission mode %s: a call that neither the mode nor a rule allows asks you first", cmp.Or(c.Permissions.Mode, session.PermissionDefault))
	}
	if c.In.Terminal {
		c.Err.Status("Ctrl-C interrupts an answer, Ctrl-D leaves, /help lists the commands")
	}
	return nil
}

// run holds the conversation: it continues an unfinished turn, then reads line by
// line.
func (c *chat) run(ctx context.Context) error {
	c.editor = c.NewEditor(completedCommands())
	defer c.editor.Close()
	if dir, err := c.DataDir(); err == nil && c.editor != nil {
		c.editor.History = terminal.OpenHistory(filepath.Join(dir, "chat_history"))
	}
	if c.unfinished != nil {
		var next holdfast.Action = holdfast.ContinueExecution{}
		if errors.Is(c.unfinished, errWaiting) {
			next = nil
		}
		if done, err := c.turn(ctx, next); done {
			return c.leave(err)
		}
	}
	for {
		if len(c.typed.Queued) > 0 {
			if done, err := c.handleQueued(ctx); done {
				return c.leave(err)
			}
			continue
		}
		if c.typed.Ended {
			return c.leave(nil)
		}
		select {
		case l := <-c.readAhead():
			if terminal.IsEOF(l.err) {
				return c.leave(nil)
			}
			if l.err != nil {
				return c.leave(l.err)
			}
			if done, err := c.handleLine(ctx, l.text); done {
				return c.leave(err)
			}
		case <-c.Interrupts.Signals:
			return c.leave(nil)
		}
	}
}

type line struct {
	text string
	err  error
}

// readAhead asks for a line. A read that waits for a person cannot be interrupted:
// it ends with the program.
func (c *chat) readAhead() <-chan line {
	lines := make(chan line, 1)
	go func() {
		text, err := c.readMessage()
		lines <- line{text, err}
	}()
	return lines
}

func (c *chat) readMessage() (string, error) {
	switch {
	case c.editor != nil:
		fmt.Fprintln(c.Err)
		text := c.typed.Text
		c.typed.Text = ""
		return c.editor.Message(c.prompt(), text)
	case c.In.Terminal:
		fmt.Fprint(c.Err, "\n"+c.prompt())
	}
	return c.In.ReadLine()
}

func (c *chat) prompt() string { return c.Err.Paint(terminal.Cyan, "› ") }

// handleQueued takes the first line that was sent while the turn before ran.
func (c *chat) handleQueued(ctx context.Context) (done bool, err error) {
	text := c.typed.Queued[0]
	c.typed.Queued = c.typed.Queued[1:]
	fmt.Fprintln(c.Err)
	c.editor.Show(c.prompt(), text)
	return c.handleLine(ctx, text)
}

// compose lets the person type while a turn runs.
func (c *chat) compose() {
	c.composer = c.editor.Compose(c.prompt(), &c.typed, c.Interrupts.Raise)
}

// turn runs one turn and says what was saved. Errors are printed and the
// conversation continues, unless no person is there to decide.
func (c *chat) turn(ctx context.Context, a holdfast.Action) (done bool, err error) {
	began := c.Now()
	ctx, stop := c.Interrupts.Watch(ctx)
	c.compose()
	s, err := c.converse(ctx, c.e, c.info.ID, a, !c.JSON, c.readResponse(ctx))
	c.composer.Stop()
	if err != nil {
		c.typed.PutBack()
	}
	caught := stop()
	c.ended = caught != nil && caught != os.Interrupt
	if saved := !s.IsZero() && s.Version() > c.info.Version; saved {
		c.unfinished = nil
		if err := c.printSaved(s, c.Now().Sub(began)); err != nil {
			return true, err
		}
	}
	if errors.Is(err, session.ErrInterrupted) || errors.Is(err, errWaiting) {
		c.unfinished = err
	}
	switch {
	case err == nil:
		return false, nil
	case !c.In.Terminal || c.ended || errors.Is(err, terminal.ErrReaderGone), caught != nil && errors.Is(err, errWaiting):
		return true, err
	case errors.Is(err, errWaiting):
		c.Err.Status("left for later · your next message cancels the call")
	case errors.Is(err, session.ErrInterrupted):
		c.Err.Status("interrupted · your message is kept · it is answered together with your next one")
	case caught != nil:
		c.Err.Status("\ninterrupted before the answer began")
	default:
		c.report(err)
	}
	return false, nil
}

// readResponse reads what a person says about a call that waits. Ctrl-C and
// Ctrl-D leave it for later.
func (c *chat) readResponse(ctx context.Context) terminal.LineReader {
	if c.editor == nil {
		return c.ReadLine(ctx)
	}
	return func(prompt string) (string, error) {
		c.composer.Stop()
		text, err := terminal.WaitFor(ctx, func() (string, error) { return c.editor.Response(prompt) })
		if ctx.Err() == nil { // else somebody still reads there
			c.compose()
		}
		return text, err
	}
}

func (c *chat) printSaved(s session.Session, took time.Duration) error {
	before, used, cost := c.last, c.used, c.cost
	c.setSession(s)
	text := display.SavedText(c.info)
	used = session.Usage{Input: c.used.Input - used.Input, Output: c.used.Output - used.Output}
	if spent := display.SpentText(used, c.cost-cost); spent != "" {
		text += " · " + spent
	}
	c.Err.Status("%s · %s", text, terminal.DurationText(took))
	if !c.JSON {
		return nil
	}
	for _, m := range s.All() {
		if m.Seq <= before {
			continue
		}
		if err := c.PrintJSONLine(m); err != nil {
			return err
		}
	}
	return nil
}

// setSession remembers where the session stands.
func (c *chat) setSession(s session.Session) {
	c.info, c.last = s.Info(), s.Info().Seq
	c.used, c.cost = s.Usage()
}

// leave says how to come back. A conversation that is left in the middle of
// an answer ends as interrupted.
func (c *chat) leave(err error) error {
	c.editor.Close()
	if c.In.Terminal {
		fmt.Fprintln(c.Err)
	}
	if err := cmp.Or(err, c.unfinished); err != nil {
		return err
	}
	if c.e.URL.Scheme == "inmem" {
		c.Err.Status("bye · this session was kept in memory only and is lost")
		return nil
	}
	c.Err.Status("bye · continue with: holdfast chat --session %s", display.ShortID(c.info.ID))
	return nil
}

package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/internal/display"
	"github.com/holdfast-dev/holdfast/internal/setup"
	"github.com/holdfast-dev/holdfast/internal/terminal"
	"github.com/holdfast-dev/holdfast/memory"
	"github.com/holdfast-dev/holdfast/session"
)

const (
	helpCommand  = "/help"
	quitCommand  = "/quit"
	retryCommand = "/retry"
)

// chatCommand is a command inside a conversation.
type chatCommand struct {
	name  string
	takes string // its argument; "" takes none
	about string
	// personal commands change something: lines from a pipe are data, and
	// sent to the agent.
	personal bool
	run      func(c *chat, ctx context.Context, arg string) error
}

var command = regexp.MustCompile(`^/[a-z]+$`)

// handleLine runs a command of the chat or sends a message. A line that begins
// with two slashes, or with a space and a slash, is always sent. Done ends the
// conversation.
func (c *chat) handleLine(ctx context.Context, text string) (done bool, err error) {
	words := strings.Fields(text)
	switch {
	case len(words) == 0:
		return false, nil
	case !strings.HasPrefix(text, "/"):
		return c.sendText(ctx, text)
	}
	name, arg := words[0], strings.TrimSpace(strings.TrimPrefix(text, words[0]))
	for _, known := range chatCommands() {
		switch {
		case known.name != name || known.personal && !c.In.Terminal:
		case known.takes != "" || arg == "":
			return c.runCommand(ctx, known, arg)
		case c.In.Terminal:
			c.Err.Status("%s takes no argument; to send the line as a message, begin it with a space", name)
			return false, nil
		}
	}
	if c.In.Terminal && command.MatchString(name) {
		c.Err.Status("%s is not a command; /help lists them; to send the line as a message, begin it with a space", name)
		return false, nil
	}
	return c.sendText(ctx, text)
}

// runCommand runs a command. Errors are printed and the conversation
// continues, unless no person is there to decide.
func (c *chat) runCommand(ctx context.Context, command chatCommand, arg string) (done bool, err error) {
	switch command.name {
	case quitCommand:
		return true, nil
	case helpCommand:
		c.Err.Status("%s", chatHelp())
		return false, nil
	case retryCommand:
		return c.turn(ctx, holdfast.RetryExecution{})
	}
	ctx, stop := c.Interrupts.Watch(ctx)
	err = command.run(c, ctx, arg)
	caught := stop()
	c.ended = caught != nil && caught != os.Interrupt
	switch {
	case err == nil:
		return c.ended, nil
	case !c.In.Terminal || c.ended || errors.Is(err, terminal.ErrReaderGone):
		return true, err
	}
	c.report(err)
	return false, nil
}

// completedCommands lists the commands as Tab completes them.
func completedCommands() []string {
	var names []string
	for _, c := range chatCommands() {
		name := c.name
		if c.takes != "" {
			name += " "
		}
		names = append(names, name)
	}
	return names
}

func chatHelp() string {
	var b strings.Builder
	line := func(what, about string) { fmt.Fprintf(&b, "%-16s %s\n", what, about) }
	for _, known := range chatCommands() {
		line(strings.TrimSpace(known.name+" "+known.takes), known.about)
	}
	line("Ctrl-C", "interrupt an answer; it is given together with that to your next message. At the prompt: drop the line, or leave if it is empty")
	line("Enter", "send; during an answer: send after it. Ctrl-C brings what was not sent back to the prompt")
	b.WriteString("Everything else is sent to the agent, also a command after a space.")
	return b.String()
}

func chatCommands() []chatCommand {
	return []chatCommand{
		{name: helpCommand, about: "this list"},
		{name: quitCommand, about: "leave; so does Ctrl-D"},
		{name: retryCommand, about: "run the last turn again, if it failed", personal: true},
		{name: "/attach", takes: "[FILE]", about: "attach a file to your next message; @FILE in a message does it too", personal: true, run: (*chat).attach},
		{name: "/info", about: "the status of this session", run: (*chat).showInfo},
		{name: "/history", takes: "[N]", about: "the last messages", run: (*chat).showHistory},
		{name: "/reasoning", about: "what the model thought before its last answer", run: (*chat).showReasoning},
		{name: "/cost", about: "tokens and money used so far", run: (*chat).showUsage},
		{name: "/tools", about: "what the agent can call", run: (*chat).showTools},
		{name: "/versions", about: "the versions of this session, for /rewind", run: (*chat).showVersions},
		{name: "/model", takes: "[NAME]", about: "show the model, or use another one from now on", personal: true, run: (*chat).changeModel},
		{name: "/new", takes: "[NAME]", about: "continue in a new session of this agent", personal: true, run: (*chat).startNew},
		{name: "/fork", takes: "[NAME]", about: "continue in a copy; this session does not change", personal: true, run: (*chat).fork},
		{name: "/rewind", takes: "VERSION", about: "go back to a version; nothing is removed", personal: true, run: (*chat).rewind},
		{name: "/prune", takes: "[N]", about: "show the model the last N messages only (10)", personal: true, run: (*chat).prune},
		{name: "/save", takes: "[FILE]", about: "write the session document to a new file", personal: true, run: (*chat).save},
	}
}

func (c *chat) showInfo(ctx context.Context, _ string) error {
	s, err := c.e.Get(ctx, c.info.ID, holdfast.WithTail())
	if err != nil {
		return err
	}
	fmt.Fprint(c.Err, c.summary(s, setup.Activity{Interrupted: errors.Is(c.unfinished, session.ErrInterrupted)}))
	return nil
}

func (c *chat) showHistory(ctx context.Context, arg string) error {
	limit, err := parseCount(arg, 10)
	if err != nil {
		return err
	}
	page, err := c.printHistory(ctx, c.e, c.info.ID, memory.HistoryOptions{Limit: limit})
	if err == nil && page.Next > 0 {
		c.Err.Status("\n%s; there are more: /history %d", partText(page), min(2*limit, page.Total))
	}
	return err
}

func (c *chat) showUsage(ctx context.Context, _ string) error {
	s, err := c.e.Get(ctx, c.info.ID, holdfast.WithTail())
	if err != nil {
		return err
	}
	fmt.Fprintln(c.Err, c.usageText(s))
	return nil
}

func (c *chat) showTools(ctx context.Context, _ string) error {
	s, err := c.e.Get(ctx, c.info.ID)
	if err != nil {
		return err
	}
	offered, err := c.e.ToolNames(ctx)
	if err != nil {
		return err
	}
	c.Err.Status("tools: %s", cmp.Or(c.ToolNames(offered, s.Definition()), "none"))
	return nil
}

func (c *chat) showVersions(ctx context.Context, _ string) error {
	commits, err := c.e.Commits(ctx, c.info.ID, 0)
	if err != nil {
		return err
	}
	for _, commit := range commits {
		c.Err.Status("%s", c.versionLine(commit))
	}
	return nil
}

func (c *chat) changeModel(ctx context.Context, arg string) error {
	if arg != "" {
		err := c.change(ctx, holdfast.ChangeModel{Model: arg})
		if err != nil {
			return c.e.Explain(err, session.Definition{}, arg)
		}
	}
	s, err := c.e.Get(ctx, c.info.ID)
	if err != nil {
		return err
	}
	c.Err.Status("%s answers", c.e.ModelOf(s))
	return nil
}

func (c *chat) rewind(ctx context.Context, arg string) error {
	if arg == "" {
		return &session.InvalidError{Field: "version", Reason: fmt.Sprintf("give a version from 1 to %d", c.info.Version)}
	}
	to, err := parseVersion(arg)
	if err != nil {
		return err
	}
	return c.change(ctx, holdfast.RewindSession{To: to})
}

// showReasoning shows what the model thought since the last message of the
// person, whole.
func (c *chat) showReasoning(ctx context.Context, _ string) error {
	s, err := c.e.Get(ctx, c.info.ID)
	if err != nil {
		return err
	}
	var thoughts []string
	for i := s.Len() - 1; i >= 0 && s.Message(i).Role != session.RoleUser; i-- {
		for _, part := range slices.Backward(s.Message(i).Content) {
			if part.Type == session.PartReasoning && strings.TrimSpace(part.Text) != "" {
				thoughts = append(thoughts, strings.TrimSpace(part.Text))
			}
		}
	}
	if len(thoughts) == 0 {
		c.Err.Status("the model tells no thoughts before its last answer")
		return nil
	}
	slices.Reverse(thoughts)
	return c.Out.Print(c.ForOutput(strings.Join(thoughts, "\n\n")) + "\n")
}

func (c *chat) prune(ctx context.Context, arg string) error {
	limit, err := parseCount(arg, 10)
	if err != nil {
		return err
	}
	return c.change(ctx, holdfast.PruneSession{Strategy: session.PruneSliding, Limit: limit})
}

// change executes an action on the session and says what was saved.
func (c *chat) change(ctx context.Context, a holdfast.Action) error {
	s, err := c.e.Execute(ctx, c.info.ID, a)
	if err != nil {
		return err
	}
	c.setSession(s)
	c.Err.Status("%s", display.SavedText(c.info))
	return nil
}

func (c *chat) fork(ctx context.Context, arg string) error {
	child, err := c.e.Fork(ctx, c.info.ID, holdfast.WithName(arg))
	if err == nil {
		c.moveTo(child)
	}
	return err
}

func (c *chat) startNew(ctx context.Context, arg string) error {
	s, err := c.e.Get(ctx, c.info.ID)
	if err != nil {
		return err
	}
	made, err := c.e.CreateFor(ctx, c.Setup, s.Definition(), arg)
	if err == nil {
		c.moveTo(made)
	}
	return err
}

// moveTo continues the conversation in another session.
func (c *chat) moveTo(s session.Session) {
	from := c.info
	c.setSession(s)
	c.unfinished = nil
	c.Err.Status("you are in session %s now; the other one is %s", display.Title(c.info), display.Title(from))
}

// save writes the document to a file that must not exist: a conversation is
// no place to lose another one.
func (c *chat) save(ctx context.Context, arg string) error {
	s, err := c.e.Get(ctx, c.info.ID, holdfast.Whole())
	if err != nil {
		return err
	}
	raw, err := session.JSON(s)
	if err != nil {
		return err
	}
	path := cmp.Or(arg, "holdfast-"+display.ShortID(c.info.ID)+".json")
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(append(raw, '\n'))
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	c.Err.Status("version %d is in %s; another store can take it with: holdfast sessions import", c.info.Version, path)
	return nil
}

// parseCount reads a count, or takes the usual one.
func parseCount(arg string, usual int) (int, error) {
	if arg == "" {
		return usual, nil
	}
	n, err := strconv.Atoi(arg)
	if err != nil || n < 1 {
		return 0, &session.InvalidError{Field: "number", Reason: fmt.Sprintf("%q is not a number above 0", arg)}
	}
	return n, nil
}

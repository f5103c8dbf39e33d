package cli

import (
	"context"
	"errors"
	"strings"

	"github.com/spf13/cobra"

	"github.com/holdfast-dev/holdfast/internal/display"
	"github.com/holdfast-dev/holdfast/internal/setup"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/task"
)

func (p *program) askCommand() *cobra.Command {
	var agent, name, model string
	cmd := &cobra.Command{
		Use: "ask [TEXT]", Short: "ask one question and print the answer; the session is kept", Args: cobra.MaximumNArgs(1),
		Long: `Ask one question in a new session and print the answer. The session is kept: "holdfast chat
--last" goes on with it.

  holdfast ask "Which port does HTTPS use?"
  git diff | holdfast ask "Write a commit message"
  holdfast ask < question.txt
  holdfast ask --file chart.png "What does this show?"

What comes through a pipe is the question, or follows TEXT. A terminal shows the answer while the
model writes it. With --json: {"sessionId", "model", "reply", "usage", "cost"}.

A tool call that no rule allows waits for your response: a terminal asks for it, elsewhere
the exit code is 19 and "holdfast respond" continues.`,
	}
	files := addFileFlag(cmd)
	cmd.RunE = p.InEnv(func(ctx context.Context, e *setup.Env, args []string) error {
		text, err := p.readQuestion(ctx, args)
		if err != nil {
			return err
		}
		attached, err := readAttachments(*files)
		if err != nil {
			return err
		}
		s, err := p.newChat(ctx, e, agent, name, model)
		if err != nil {
			return err
		}
		e.EmbedForRecall(ctx, s)
		s, err = p.converse(ctx, e, s.ID(), newMessage(text, attached), p.Out.Terminal && !p.JSON, p.ReadLine(ctx))
		if p.JSON && err == nil {
			return p.PrintJSON(newAskReply(s))
		}
		if err == nil && p.Err.Terminal {
			p.Err.Status("%s answered · go on with: holdfast chat --session %s", answeredBy(s), display.ShortID(s.ID()))
		}
		return err
	})
	p.addNewChatFlags(cmd, &agent, &name, &model)
	return p.AddPermissionFlags(cmd)
}

// askReply is the answer to one question, for programs.
type askReply struct {
	SessionID string        `json:"sessionId"`
	Model     string        `json:"model"`
	Reply     string        `json:"reply"`
	Usage     session.Usage `json:"usage"`
	Cost      session.Cost  `json:"cost"`
}

// answeredBy returns the model that gave the last answer.
func answeredBy(s session.Session) string {
	if e := s.Execution(); e != nil && len(e.Steps) > 0 {
		return e.Steps[len(e.Steps)-1].Model
	}
	return ""
}

func newAskReply(s session.Session) askReply {
	r := askReply{SessionID: s.ID(), Model: answeredBy(s), Reply: s.Reply()}
	if e := s.Execution(); e != nil {
		r.Usage, r.Cost = e.Usage, e.Cost
	}
	return r
}

// readQuestion returns what is asked: the argument, what a pipe brings, or the
// one followed by the other.
func (p *program) readQuestion(ctx context.Context, args []string) (string, error) {
	var parts []string
	if len(args) > 0 && args[0] != "-" {
		parts = append(parts, args[0])
	}
	if !p.In.Terminal && (len(parts) == 0 || p.In.Piped()) {
		piped, err := p.ReadText(ctx, "-")
		if err != nil {
			return "", err
		}
		if strings.TrimSpace(piped) != "" {
			parts = append(parts, piped)
		}
	}
	text := strings.Join(parts, "\n\n")
	if strings.TrimSpace(text) == "" {
		return "", &usageError{command: "holdfast ask", err: errors.New(`there is no question; give it as holdfast ask "…", or through a pipe`)}
	}
	return text, nil
}

// newChat makes the session of a new conversation.
func (p *program) newChat(ctx context.Context, e *setup.Env, agent, name, model string) (session.Session, error) {
	def, err := p.loadAgent(ctx, e, agent)
	if err != nil {
		return session.Session{}, err
	}
	if model != "" {
		def.Model = model
	}
	p.addAgentsFile(e, &def)
	if def.Model == "" {
		if err := e.CheckDefaultModel(); err != nil {
			return session.Session{}, err
		}
	}
	s, err := e.CreateFor(ctx, p.Setup, def, name)
	if err != nil {
		return s, e.Explain(err, def, def.Model)
	}
	if _, err := e.Resolve(ctx, name); name != "" && errors.Is(err, session.ErrAmbiguous) {
		p.Err.Status("another session is called %s too; --session continues one, by its id", name)
	}
	return s, nil
}

// addAgentsFile makes what the AGENTS.md of the workspace says part of the prompt.
// The agents of a server work elsewhere.
func (p *program) addAgentsFile(e *setup.Env, def *session.Definition) {
	if e.Server != nil || !p.readsAgentsFile() {
		return
	}
	if text := task.AgentsFile(p.Permissions.Dir()); text != "" {
		def.SystemPrompt = strings.TrimSpace(def.SystemPrompt + "\n\n" + text)
		p.Err.Status("AGENTS.md of the workspace is part of the prompt; --no-agents-file leaves it out")
	}
}

// readsAgentsFile reports that agents are told what AGENTS.md says.
func (p *program) readsAgentsFile() bool {
	return !p.noAgentsFile && !p.IsOn("HOLDFAST_NO_AGENTS_FILE")
}

func (p *program) addAgentsFileFlag(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&p.noAgentsFile, "no-agents-file", false, "leave AGENTS.md of the workspace out of the prompt, like $HOLDFAST_NO_AGENTS_FILE")
}

// addNewChatFlags gives a command the flags of a new conversation.
func (p *program) addNewChatFlags(cmd *cobra.Command, agent, name, model *string) {
	f := cmd.Flags()
	f.StringVar(agent, "agent", "", "definition `FILE` of the agent, or a name that \"holdfast definitions list\" shows")
	p.addAgentsFileFlag(cmd)
	f.StringVar(name, "name", "", "`NAME` of the new session")
	f.StringVar(&p.User, "user", "", "`NAME` of the user that the new session belongs to, whose memory the agent shares (default $HOLDFAST_USER, else no user)")
	f.StringVar(model, "model", "", "the `MODEL` that answers, as provider/model (default the agent's, else $HOLDFAST_MODEL, else a model of the provider whose key is set)")
}

package task

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/session"
)

// TextInput asks for words alone: no tools are offered.
type TextInput struct {
	Messages              []session.Message
	SystemPrompt          string
	MaxTokens             int // of the answer; 0: the model's own limit
	ContinuationMaxTokens int // of what follows a cut; 0: MaxTokens
	Label                 string
	AllowContinuation     bool // ask once more where the answer was cut off
	EmptyFallback         string
	OnText                func(label, text string) // each part as it is there; may be nil
}

// TextOutput is what came of it.
type TextOutput struct {
	Text       string
	Turns      int
	StopReason StopReason
}

const textTimeout = 120 * time.Second

// RunText asks the model for a text, and once more where it was cut off. Each
// answer is a turn, and exactly one message is added to the transcript. A
// BudgetError says that no turn was left.
func (r *Run) RunText(ctx context.Context, in TextInput) (TextOutput, error) {
	a, err := r.asking(ctx)
	if err != nil {
		return TextOutput{StopReason: StopProvider}, err
	}
	a.request.Tools, a.request.ResponseFormat, a.request.System = nil, nil, in.SystemPrompt
	out := TextOutput{StopReason: StopCompleted}
	var text string
	label, most := in.Label, in.MaxTokens
	for {
		a.request.Messages = r.prefixed(in.Messages, text)
		a.request.Inference = r.state().Loop.LifetimeTurns
		if limit := most; limit > 0 {
			a.request.Params.MaxOutputTokens = &limit
		}
		part, cut, err := r.askText(ctx, a)
		if err != nil {
			return out, err
		}
		out.Turns++
		text += part
		if in.OnText != nil && part != "" {
			in.OnText(label, part)
		}
		if !cut || strings.TrimSpace(part) == "" || !in.AllowContinuation || out.Turns > 1 {
			break
		}
		label = in.Label + " (continuation)"
		most = orNumber(in.ContinuationMaxTokens, in.MaxTokens)
	}
	if out.Text = strings.TrimSpace(text); out.Text == "" {
		out.Text, out.StopReason = in.EmptyFallback, StopEmpty
	}
	m := session.Message{ID: r.x.c.NewID(), Role: session.RoleAssistant, Content: session.Text(out.Text)}
	return out, r.append(ctx, move{changes: []session.Change{session.MessageAdded{Message: m}}, state: func(s *session.TaskState) {
		if out.Text != "" {
			s.Said.Answer, s.Said.Result, s.Said.Shown = &out.Text, &out.Text, &out.Text
		}
	}})
}

// prefixed are messages with the beginning of the answer that is asked for.
func (r *Run) prefixed(messages []session.Message, begun string) []session.Message {
	var all []session.Message
	for _, m := range messages {
		all = append(all, r.fresh(m))
	}
	if begun != "" {
		all = append(all, session.Message{ID: r.x.c.NewID(), Role: session.RoleAssistant, CreatedAt: r.x.c.Clock(), Content: session.Text(begun)})
	}
	return session.Sendable(all)
}

// askText asks once. The turn is counted before anybody sees the words.
func (r *Run) askText(ctx context.Context, a asking) (text string, cut bool, err error) {
	if err := r.checkBudgets(ctx); err != nil {
		return "", false, err
	}
	bounded, stop := context.WithTimeoutCause(ctx, textTimeout, errors.New("no answer in time"))
	defer stop()
	response, err := r.ask(bounded, a)
	if err != nil {
		return "", false, err
	}
	answer := r.heard(a, response, "")
	usage, count := r.counted(answer)
	if err := r.append(ctx, move{changes: usage, state: count}); err != nil {
		return "", false, err
	}
	return answer.message.Content.Text(), cutOff(answer.finish), nil
}

package task

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/llm"
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
	name, model, err := r.x.rt.Model(r.session().Model())
	if err != nil {
		return TextOutput{StopReason: StopProvider}, err
	}
	q := llm.Request{Model: name, System: in.SystemPrompt, Params: r.session().ModelParams()}
	out := TextOutput{StopReason: StopCompleted}
	var text string
	label, most := in.Label, in.MaxTokens
	for {
		q.Messages = r.prefixed(in.Messages, text)
		if limit := most; limit > 0 {
			q.Params.MaxOutputTokens = &limit
		}
		part, cut, err := r.askText(ctx, model, q)
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
		most = cmp.Or(in.ContinuationMaxTokens, in.MaxTokens)
	}
	if out.Text = strings.TrimSpace(text); out.Text == "" {
		out.Text, out.StopReason = in.EmptyFallback, StopEmpty
	}
	m := session.Message{ID: r.x.c.NewID(), Role: session.RoleAssistant, Content: session.Text(out.Text)}
	return out, r.append(ctx, edit{changes: []session.Change{session.MessageAdded{Message: m}}, state: func(s *session.TaskState) {
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
func (r *Run) askText(ctx context.Context, model llm.Model, q llm.Request) (text string, cut bool, err error) {
	if err := r.checkBudgets(ctx); err != nil {
		return "", false, err
	}
	bounded, stop := context.WithTimeoutCause(ctx, textTimeout, errors.New("no answer in time"))
	defer stop()
	response, err := r.ask(bounded, model, q)
	if err != nil {
		return "", false, err
	}
	err = r.append(ctx, r.counted(spent{response.Model, response.Usage, response.Cost}))
	return response.Content.Text(), cutOff(response.FinishReason), err
}

package holdfast

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/holdfast-dev/holdfast/agent"
	"github.com/holdfast-dev/holdfast/llm"
	"github.com/holdfast-dev/holdfast/memory"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

// prune applies the definition's memory policy after a turn that added
// messages. It never touches an execution that is still open. A failure
// leaves the window as it was; the next turn tries again.
func (rt *Runtime) prune(ctx context.Context, s, loaded session.Session) (pruned session.Session) {
	defer func() {
		if v := recover(); v != nil {
			rt.bus.emit(MemoryPruneFailed{rt.failure(s.ID(), &session.PanicError{Where: "pruning", Value: v})})
			pruned = s
		}
	}()
	policy := s.Definition().Memory
	if policy == nil || s.Running() || !addedMessages(s, loaded) {
		return s
	}
	strategy, limit := policy.Strategy, 0
	strategy = cmp.Or(strategy, session.PruneSliding)
	if policy.Limit != nil {
		limit = *policy.Limit
	}
	if strategy == session.PruneSummary && !worthSummary(s, policy, limit) {
		return s
	}
	next, err := memory.Prune(ctx, s, strategy, limit, rt.pruneWith(s))
	if err != nil {
		rt.bus.emit(MemoryPruneFailed{rt.failure(s.ID(), err)})
		return s
	}
	rt.emitPruned(s, next, strategy)
	return next
}

// emitPruned emits what left the window, if anything did.
func (rt *Runtime) emitPruned(before, after session.Session, strategy session.Strategy) {
	from, to := before.Window().FromSeq, after.Window().FromSeq
	if from == to {
		return
	}
	e := MemoryPruned{About: rt.about(after.ID()), Strategy: strategy, From: from, To: to}
	for _, r := range session.Unsaved(after) {
		if moved, ok := r.Change.(session.WindowMoved); ok {
			e.Groups, e.Tokens = moved.Groups, moved.Tokens
		}
	}
	rt.bus.emit(e)
}

// fitWindow compares a request with what its model can take in. With a memory
// policy it moves the window so that the request fits; without one it refuses.
func (rt *Runtime) fitWindow(ctx context.Context, s session.Session, model llm.Model, r llm.Request) (session.Session, error) {
	bytes := requestBytes(r)
	if err := rt.config.Limits.checkRequest(bytes); err != nil {
		return s, err
	}
	if surelyFits(model, r, bytes) {
		return s, nil
	}
	with := rt.pruneWith(s)
	size := with.Measure(model, r)
	most, apart := size.Capacity, size.Other+size.Answer
	if size.Messages+apart <= most {
		return s, nil
	}
	tooLong := &session.ContextLengthError{Model: r.Model, Have: size.Messages + apart, Max: most}
	policy := s.Definition().Memory
	if policy == nil || policy.Strategy == session.PruneAll {
		return s, tooLong
	}
	next, err := memory.Fit(ctx, s, most-apart, with)
	if err != nil {
		return s, err
	}
	r.Messages = agent.Transcript(next)
	if tooLong.Have = with.Measure(model, r).Messages + apart; tooLong.Have > most {
		return s, tooLong
	}
	rt.emitPruned(s, next, session.PruneTokens)
	return next, nil
}

// surelyFits reports whether a request fits its model however tokens are
// counted, or nobody knows how much the model takes in. Nobody makes more than
// one token of each byte of a text, so most requests need not be counted, which
// is slow.
func surelyFits(model llm.Model, r llm.Request, bytes int) bool {
	known, ok := model.(llm.ContextLength)
	if !ok {
		return true
	}
	most, tokens := known.ContextLength(), bytes+mostBesideText*(len(r.Messages)+1)
	if most == 0 {
		return true
	}
	for i := range r.Messages {
		for _, p := range r.Messages[i].Content {
			switch p.Type {
			case session.PartImage, session.PartFile, session.PartAudio:
				tokens += mostOfMedia
			}
		}
	}
	if r.Params.MaxOutputTokens != nil {
		tokens += *r.Params.MaxOutputTokens
	}
	return tokens <= most
}

const (
	// mostBesideText is how many tokens a message has at most beside its texts,
	// mostOfMedia how many an image, a file or a sound has beside its bytes.
	mostBesideText = 16
	mostOfMedia    = 4000
)

// countUsage counts what an inference used, by the same measure as pruning.
func (rt *Runtime) countUsage(s session.Session, r llm.Request, answer session.Message) session.Usage {
	with := rt.pruneWith(s)
	return session.Usage{Input: int64(with.Measure(nil, r).Tokens()), Output: int64(with.Tokens(answer))}
}

func addedMessages(s, loaded session.Session) bool {
	n := s.Len()
	return n > 0 && s.Message(n-1).Seq > session.Base(loaded)
}

// worthSummary waits until enough has gathered that a summary pays.
func worthSummary(s session.Session, policy *session.MemoryPolicy, limit int) bool {
	slack := limit
	if policy.Slack != nil {
		slack = *policy.Slack
	}
	return len(session.Groups(s.WindowMessages())) > limit+slack
}

// pruneWith returns what package memory needs of the runtime.
func (rt *Runtime) pruneWith(s session.Session) memory.With {
	with := memory.With{Now: rt.config.Now}
	_, model, err := rt.Model(s.Model())
	if err == nil {
		with.Count = memory.CountBy(model)
	}
	if rt.canEmbed() {
		with.Index = func(ctx context.Context, _ []session.Message) error { return rt.embedSession(ctx, store.RefOf(s)) }
	}
	policy := s.Definition().Memory
	if policy == nil || policy.SummaryPrompt == "" {
		return with
	}
	with.Summarise = func(ctx context.Context, previous string, leaving []session.Message) (session.Summary, error) {
		return rt.summarise(ctx, s, policy, previous, leaving)
	}
	return with
}

// summaryTimeout bounds how long a turn waits for a summary.
const summaryTimeout = 2 * time.Minute

// summarise asks the policy's model, or the session's, for a summary. An answer
// that takes too long is an error, and the window stays as it is.
func (rt *Runtime) summarise(ctx context.Context, s session.Session, policy *session.MemoryPolicy, previous string, leaving []session.Message) (session.Summary, error) {
	ctx, cancel := context.WithTimeout(ctx, summaryTimeout)
	defer cancel()
	name := policy.SummaryModel
	name = cmp.Or(name, s.Model())
	name, model, err := rt.Model(name)
	if err != nil {
		return session.Summary{}, err
	}
	said := func(text string) session.Message {
		return session.Message{ID: rt.config.NewID(), Role: session.RoleUser, CreatedAt: rt.config.Now(), Content: session.Text(text)}
	}
	// A conversation that begins with an answer would lose it on the way to
	// the model: something of a user's stands before it.
	var messages []session.Message
	switch {
	case previous != "":
		messages = append(messages, said("The summary so far:\n"+previous))
	case leaving[0].Role != session.RoleUser:
		messages = append(messages, said("The conversation so far:"))
	}
	messages = append(session.Sendable(append(messages, leaving...)), said(policy.SummaryPrompt))
	response, err := model.Infer(ctx, llm.Request{
		Model: name, Messages: messages, Agent: s.Info().AgentName, SessionID: s.ID(), Inference: s.InferenceCount(),
	}, nil)
	if err != nil {
		return session.Summary{}, fmt.Errorf("ask %s: %w", name, err)
	}
	return session.Summary{Text: response.Content.Text(), Model: name, Usage: response.Usage, Cost: llm.CostOf(model, response), CreatedAt: rt.config.Now()}, nil
}

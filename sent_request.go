package holdfast

import (
	"context"
	"fmt"
	"strconv"

	"github.com/holdfast-dev/holdfast/agent"
	"github.com/holdfast-dev/holdfast/llm"
	"github.com/holdfast-dev/holdfast/memory"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/tool"
)

// SentRequest is what a model was sent, built again from the log.
type SentRequest struct {
	llm.Request
	// Step is which inference of the version it was, from 1. 0: the version has
	// none, and this is what the model would be sent at that version.
	Step  int
	Steps int // how many inferences the version has
	// Recalled names the passages that memory added to the system prompt. Their
	// texts are not kept in the log and not part of System.
	Recalled []string
	Reasons  []session.RecallReason // why, in the order of Recalled
}

// SentRequest builds the request of a chat's inference again, by the code that
// built the first one: step says which of the version's, 0: the last. Prompt,
// messages, window and parameters are those of that moment. The tools and the
// texts of capabilities and skills are those that the runtime has today.
func (rt *Runtime) SentRequest(ctx context.Context, id string, version int64, step int) (SentRequest, error) {
	ctx, done, err := rt.beginCall(ctx)
	if err != nil {
		return SentRequest{}, err
	}
	defer done()
	ref, err := rt.logRef(id)
	if err != nil {
		return SentRequest{}, err
	}
	s, err := rt.logs.LoadAt(ctx, ref, version)
	if err != nil {
		return SentRequest{}, err
	}
	if kind := s.Info().Kind; kind != session.KindChat {
		return SentRequest{}, &session.InvalidError{Field: "session", Reason: fmt.Sprintf("is a %s; only the requests of chats can be built again", kind)}
	}
	var sent SentRequest
	if version > 1 {
		before, err := rt.logs.LoadAt(ctx, ref, version-1)
		if err != nil {
			return sent, err
		}
		changes, err := rt.Diff(ctx, id, version-1, version)
		if err != nil {
			return sent, err
		}
		if s, err = sent.find(before, s, changes, step); err != nil {
			return sent, err
		}
	} else if step > 0 {
		return sent, noStep(step)
	}
	if s, err = rt.runHooks(ctx, session.AfterLoad, s); err != nil {
		return sent, err
	}
	name, _, err := rt.Model(s.Model())
	if name == "" {
		return sent, err
	}
	sent.Request, err = agent.Config{Tools: rt.executionTools, System: rt.SystemPrompt}.BuildRequest(ctx, s, name, "")
	return sent, err
}

// MeasureRequest counts the tokens of what the model of a chat would be sent if
// more were said to it, with tools of the caller. The session need not be saved,
// and nothing is. What memory would recall is not counted.
func (rt *Runtime) MeasureRequest(ctx context.Context, s session.Session, tools []session.ClientTool, more ...session.Message) (memory.Size, error) {
	ctx, done, err := rt.beginCall(ctx)
	if err != nil {
		return memory.Size{}, err
	}
	defer done()
	name, model, err := rt.Model(s.Model())
	if err != nil {
		return memory.Size{}, err
	}
	with := func(ctx context.Context, s session.Session) (tool.Set, error) {
		return rt.toolsWith(ctx, s.Definition(), tools)
	}
	r, err := agent.Config{Tools: with, System: rt.SystemPrompt}.BuildRequest(ctx, s, name, "")
	if err != nil {
		return memory.Size{}, err
	}
	r.Messages = append(r.Messages[:len(r.Messages):len(r.Messages)], more...)
	return rt.pruneWith(s).Measure(model, r), nil
}

// find returns the session as it was when the model was asked, or the version
// itself where it was not.
func (r *SentRequest) find(before, version session.Session, changes []session.LogEntry, step int) (session.Session, error) {
	var records []session.Record
	asked := 0 // how many records led to the inference
	for _, e := range changes {
		_, failed := e.Change.(session.InferenceFailed)
		answered, ok := e.Change.(session.InferenceAnswered)
		if (ok || failed) && !e.Discarded {
			if r.Steps++; step == 0 || step == r.Steps {
				r.Step, r.Recalled, r.Reasons, asked = r.Steps, answered.Recalled, answered.Reasons, len(records)
			}
		}
		records = append(records, e.Record)
	}
	if step > r.Steps {
		return version, noStep(step)
	}
	if r.Step == 0 {
		return version, nil
	}
	return session.FoldFrom(before, records[:asked])
}

func noStep(step int) error { return &session.NotFoundError{What: "step", ID: strconv.Itoa(step)} }

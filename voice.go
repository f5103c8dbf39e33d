package holdfast

import (
	"strings"

	"github.com/holdfast-dev/holdfast/agent"
	"github.com/holdfast-dev/holdfast/llm"
)

// voice is how a running turn is heard: by the one who executes it and by all
// who follow the session in this process. Only the turn uses it.
type voice struct {
	rt     *Runtime
	room   *room
	stream func(llm.Delta) // of the one who executes; may be nil
	answer *answer         // nil: the model has not been asked yet

	held    string // the end of what was said, which may be the beginning of a secret
	thought bool   // it is reasoning
}

// speak gives a turn its voice. The caller hushes it.
func (rt *Runtime) speak(x *execution) *voice {
	return &voice{rt: rt, room: rt.live.enter(x.ref), stream: x.opts.stream}
}

// hush ends what is being said.
func (v *voice) hush() {
	v.room.end(v.answer)
	v.rt.live.leave(v.room)
}

// begin is told when the model is asked. Base is the last change in the log.
func (v *voice) begin(n agent.Notice, base int64) {
	v.held = ""
	v.answer = &answer{executionID: n.ExecutionID, stepID: n.StepID, attempt: n.Attempt, base: base}
	v.room.begin(v.answer)
}

// drop makes what was said of the answer void.
func (v *voice) drop() {
	v.held = ""
	v.answer = v.room.drop(v.answer)
}

// say hands on a piece of the answer. Secrets are masked, also those that come
// in several pieces.
func (v *voice) say(d llm.Delta) {
	if len(v.rt.config.Secrets) == 0 {
		v.hand(d)
		return
	}
	v.hide(d.Reasoning, true)
	v.hide(d.Text, false)
	if d.ToolCall == nil {
		return
	}
	v.release()
	call := copied(d.ToolCall)
	if len(call.Arguments) > 0 {
		masked, err := v.rt.maskJSON(call.Arguments)
		if err != nil { // what cannot be read may hold anything
			masked = nil
		}
		call.Arguments = masked
	}
	v.hand(llm.Delta{ToolCall: call})
}

// hide hands on text without secrets. An end that may be the beginning of one
// waits for what follows.
func (v *voice) hide(text string, thought bool) {
	if text == "" {
		return
	}
	if v.thought != thought {
		v.release()
		v.thought = thought
	}
	text = v.rt.masked(v.held + text)
	n := v.rt.secretBegun(text)
	v.held = text[len(text)-n:]
	v.utter(text[:len(text)-n])
}

// release hands on what was held back: nothing has made a secret of it.
func (v *voice) release() {
	text := v.held
	v.held = ""
	v.utter(text)
}

func (v *voice) utter(text string) {
	switch {
	case text == "":
	case v.thought:
		v.hand(llm.Delta{Reasoning: text})
	default:
		v.hand(llm.Delta{Text: text})
	}
}

func (v *voice) hand(d llm.Delta) {
	v.room.add(v.answer, d)
	if v.stream != nil {
		v.stream(d)
	}
}

// secretBegun is how many bytes at the end of a text may be the beginning of a
// secret.
func (rt *Runtime) secretBegun(text string) int {
	longest := 0
	for _, value := range rt.config.Secrets {
		for n := min(len(value)-1, len(text)); n > longest; n-- {
			if strings.HasSuffix(text, value[:n]) {
				longest = n
			}
		}
	}
	return longest
}

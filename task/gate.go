package task

import (
	"context"
	"fmt"
	"time"

	"github.com/holdfast-dev/holdfast/agent"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/tool"
)

// gate refuses calls that nobody need be asked about, then asks permissions.
type gate struct {
	w     *work
	inner agent.Gate
}

// Admit decides about a call. Tools of the task itself need no permission.
func (g gate) Admit(ctx context.Context, s session.Session, call agent.Call) (agent.Admission, error) {
	s, settings, err := g.settings(ctx, s)
	if err != nil {
		return agent.Admission{}, err
	}
	a, err := g.decide(ctx, s, call)
	a.Changes = append(settings, a.Changes...)
	return a, err
}

// settings applies the settings that have arrived: they count for this call.
func (g gate) settings(ctx context.Context, s session.Session) (session.Session, []session.Change, error) {
	r := g.w.r
	r.setLive(&s)
	items, err := r.items(ctx)
	if err != nil {
		return s, nil, err
	}
	if err := r.x.applySettings(ctx, r, items); err != nil {
		return s, nil, err
	}
	next := r.session()
	var changes []session.Change
	for _, record := range session.Unsaved(next) {
		if record.Seq > s.Seq() {
			changes = append(changes, record.Change)
		}
	}
	return next, changes, nil
}

func (g gate) decide(ctx context.Context, s session.Session, call agent.Call) (agent.Admission, error) {
	if text, remembered, refused := g.unfit(s, call); refused {
		if remembered {
			g.w.again[call.ID] = true
		}
		return agent.Admission{Refusal: &tool.Result{Content: text, IsError: !remembered}}, nil
	}
	if ownTool(call.Name) {
		return agent.Admission{}, nil
	}
	a, err := g.inner.Admit(ctx, s, call)
	if err != nil {
		return a, stop(StopError, err)
	}
	if why, ok := a.Reason.(session.PermissionReason); ok && a.Refusal != nil {
		g.w.silent[call.ID] = true
		a.Changes = append(a.Changes, blockedEvent(call.ToolCall, why))
	}
	return a, nil
}

// unfit returns the refusal of a call that nobody need be asked about.
// Remembered says that the text is the result of an equal call.
func (g gate) unfit(s session.Session, call agent.Call) (text string, remembered, refused bool) {
	state, mode := stateOf(s), rowIn(s).ExecutionMode
	now := millis(g.w.r.x.c.Clock())
	spec := call.Tool.Spec()
	switch {
	case state.Loop.WrapUp:
		return wrappingUpText, false, true
	case blocks(state.Loop, call.ToolCall):
		return blockedLoopText, false, true
	case checklistTool(call.Name) && !checklistMode(mode):
		return fmt.Sprintf(modeOnlyText, call.Name), false, true
	case call.Name == tool.AskPersonName && !inputMode(mode):
		return noInputText, false, true
	case !ownTool(call.Name) && !usableIn(mode, spec):
		return fmt.Sprintf(readsOnlyText, mode, call.Name), false, true
	}
	if f, off := disabled(state.Tools, spec, hostOf(call.ToolCall), now); off {
		return fmt.Sprintf(disabledText, call.Name, time.UnixMilli(f.DisabledUntil).UTC().Format(time.RFC3339), f.LastError), false, true
	}
	text, remembered = rememberedResult(s, call.ToolCall, spec, now)
	return text, remembered, remembered
}

// Responded notes how a call was settled and keeps the rule that was chosen.
func (g gate) Responded(ctx context.Context, s session.Session, p session.PendingCall, r session.Response) ([]session.Change, error) {
	g.w.replies[p.CallID] = reply{Response: r, kept: p.Default != nil}
	return g.inner.Responded(ctx, s, p, r)
}

// usableIn reports a tool that an agent may use in a mode. One that plans, analyzes
// or chats changes nothing, whatever permissions allow.
func usableIn(mode string, spec tool.Spec) bool {
	if mode != "plan" && mode != "analyze" && mode != "chat" {
		return true
	}
	return spec.Runner == tool.ByPerson || spec.Effects.Within(tool.Read|tool.Network)
}

// inputMode reports a mode in which an agent may ask. One that chats just says
// what it wants to know.
func inputMode(mode string) bool { return mode != "chat" }

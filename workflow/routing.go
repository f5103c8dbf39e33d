package workflow

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/workflow/spec"
	"github.com/holdfast-dev/holdfast/workflow/template"
)

// routing has an agent choose which steps to run, and runs them.
type routing struct {
	c *spec.Routing

	choice, response string // the router's own
	chosen           string // the route in force
	executed         bool
	review           *HITLState
	route            *steps
}

func newRouting(c *spec.Routing) *routing { return &routing{c: c} }

func (p *routing) run(ctx context.Context, r *run) (final, error) {
	if err := p.choose(ctx, r); err != nil {
		return final{}, err
	}
	if err := p.reviewRoute(ctx, r); err != nil {
		return final{}, err
	}
	route, ok := p.c.Routes.Get(p.chosen)
	if !ok {
		return final{}, p.unknownRoute(p.chosen)
	}
	p.route = &steps{
		prefix: UnitKey("route/", p.chosen, "/"), pointer: "/pattern/config/routes/" + escapePointer(p.chosen) + "/then", steps: route.Then,
		around: p.routerScope(),
	}
	r.emitOnce(p.route.key(0), RoutingDecision, RouteData{p.chosen})
	return p.route.run(ctx, r)
}

// choose has the router choose, again where its answer cannot be read.
func (p *routing) choose(ctx context.Context, r *run) error {
	c := p.c.Router
	var earlier, tries []string
	for k := range c.MaxRetries + 1 {
		key := fmt.Sprintf("router#%d", k)
		e, err := r.work(ctx, unit{
			key: key, agent: c.Agent, lane: LaneRouter, earlier: earlier, source: c.Input, read: func(text string) (json.RawMessage, error) {
				route, err := readRoute(text)
				if err != nil {
					return nil, err
				}
				return json.Marshal(route)
			},
			input: func() (string, error) {
				input, err := r.render("/pattern/config/router/input", c.Input, r.scopeWith())
				return routerText(input, p.c.Routes.Names(), k > 0), err
			},
		})
		if err != nil {
			return err
		}
		tries = append(tries, key)
		if e.result.Value == nil {
			earlier = append(earlier, key)
			continue
		}
		if err := json.Unmarshal(e.result.Value, &p.choice); err != nil {
			return fmt.Errorf("read the route of %s: %w", key, err)
		}
		if !p.c.Routes.Has(p.choice) {
			return &unusableAnswer{tries, p.unknownRoute(p.choice)}
		}
		p.executed, p.response, p.chosen = true, e.response(), p.choice
		return nil
	}
	return &unusableAnswer{tries, fmt.Errorf("the router's answer could not be read after %d tries", c.MaxRetries+1)}
}

func (p *routing) unknownRoute(route string) error {
	return fmt.Errorf("the router chose %q; choose one of %s", route, strings.Join(p.c.Routes.Names(), ", "))
}

// reviewRoute lets a person overrule the router.
func (p *routing) reviewRoute(ctx context.Context, r *run) error {
	if p.c.Router.Review == nil {
		return nil
	}
	state, err := r.ask(ctx, prompt{
		unit: "router/review", ask: p.c.Router.Review, pointer: "/pattern/config/router/review_router",
		scope: r.scopeWith(p.routerScope()), place: HITLState{RouterReview: ptr(true)},
		check: func(answer string) error { _, err := p.routeOf(answer); return err },
	})
	if state.Unit != "" {
		p.review = &state
	}
	if err != nil {
		return err
	}
	p.chosen, err = p.routeOf(*state.UserResponse)
	return err
}

// routeOf returns the route that a person wants.
func (p *routing) routeOf(answer string) (string, error) {
	trimmed := strings.TrimSpace(answer)
	if strings.EqualFold(trimmed, "approved") {
		return p.choice, nil
	}
	name, found := strings.CutPrefix(trimmed, "route:")
	if found {
		if name = strings.TrimSpace(name); p.c.Routes.Has(name) {
			return name, nil
		}
		var like []string
		for _, route := range p.c.Routes.Names() {
			if strings.EqualFold(route, name) {
				like = append(like, route)
			}
		}
		if len(like) == 1 {
			return like[0], nil
		}
	}
	return "", &session.InvalidError{Field: "answer", Reason: fmt.Sprintf(
		"%q is neither approved nor route:<name>; choose one of %s", answer, strings.Join(p.c.Routes.Names(), ", "))}
}

func (p *routing) routerScope() template.Scope {
	return template.Scope{"router": value(spec.Map[any]{{Name: "chosen_route", Value: p.chosen}, {Name: "response", Value: p.response}})}
}

func (p *routing) state() spec.Map[any] {
	if !p.executed {
		return spec.Map[any]{}
	}
	state := spec.Map[any]{
		{Name: "router_executed", Value: true}, {Name: "chosen_route", Value: p.chosen},
		{Name: "router_decision", Value: spec.Map[any]{{Name: "chosen_route", Value: p.choice}, {Name: "response", Value: p.response}}},
	}
	hitl := p.review
	if p.route != nil {
		state = state.With("route_state", spec.Map[any]{
			{Name: "current_step", Value: len(p.route.history)}, {Name: "step_history", Value: p.route.historyList()},
		})
		if p.route.hitl != nil {
			hitl = p.route.hitl
		}
	}
	if hitl != nil {
		state = state.With("hitl_state", *hitl)
	}
	return state
}

func (p *routing) scope() template.Scope {
	scope := p.routerScope()
	scope["chosen_route"], scope["router_agent"] = template.Str(p.chosen), template.Str(p.c.Router.Agent)
	scope["steps"] = template.List{}
	if p.route != nil {
		scope["steps"] = p.route.list
	}
	return scope
}

// escapePointer makes a name a part of a JSON pointer.
func escapePointer(name string) string {
	return strings.NewReplacer("~", "~0", "/", "~1").Replace(name)
}

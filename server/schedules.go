package server

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/holdfast-dev/holdfast/apikey"
	"github.com/holdfast-dev/holdfast/schedule"
)

func (s *Server) addSchedules() {
	if s.config.Schedules == nil {
		return
	}
	tags := []string{"schedules"}
	register(s, apikey.Write, huma.Operation{
		OperationID: "create-schedule", Method: http.MethodPost, Path: "/v1/schedules", DefaultStatus: http.StatusCreated,
		Summary: "Send a message at given times", Tags: tags,
		Description: "Each firing happens once, however many nodes there are. It goes to a session, or to a new session of an agent.",
	}, s.createSchedule)
	register(s, apikey.Read, huma.Operation{
		OperationID: "list-schedules", Method: http.MethodGet, Path: "/v1/schedules",
		Summary: "List the schedules of the caller's tenant", Tags: tags,
	}, s.listSchedules)
	register(s, apikey.Read, huma.Operation{
		OperationID: "get-schedule", Method: http.MethodGet, Path: "/v1/schedules/{id}", Summary: "Read a schedule", Tags: tags,
	}, s.getSchedule)
	register(s, apikey.Write, huma.Operation{
		OperationID: "pause-schedule", Method: http.MethodPost, Path: "/v1/schedules/{id}/pause", Summary: "Stop a schedule for a while", Tags: tags,
		Description: setsState,
	}, func(ctx context.Context, c caller, in *onSchedule) (*scheduleOutput, error) {
		return s.pauseSchedule(ctx, c, in, true)
	})
	register(s, apikey.Write, huma.Operation{
		OperationID: "resume-schedule", Method: http.MethodPost, Path: "/v1/schedules/{id}/resume",
		Summary: "Let a schedule go on; what passed meanwhile is not sent", Tags: tags,
		Description: setsState,
	}, func(ctx context.Context, c caller, in *onSchedule) (*scheduleOutput, error) {
		return s.pauseSchedule(ctx, c, in, false)
	})
	register(s, apikey.Write, huma.Operation{
		OperationID: "delete-schedule", Method: http.MethodDelete, Path: "/v1/schedules/{id}", Summary: "Remove a schedule", Tags: tags,
		Description: repeatable,
	}, s.deleteSchedule)
}

type createScheduleInput struct {
	KeyHeader
	Body struct {
		ID        string           `json:"id,omitempty" doc:"A schedule with this id is created once"`
		Label     string           `json:"label,omitempty"`
		Cron      string           `json:"cron" doc:"Minute, hour, day of month, month and day of week"`
		Zone      string           `json:"zone,omitempty" doc:"The time zone of cron; UTC by default"`
		CatchUp   schedule.CatchUp `json:"catchUp,omitempty" enum:"skip,one,all" doc:"What to do about times that passed while no node was there; skip by default"`
		SessionID string           `json:"sessionId,omitempty" doc:"The session that gets the message"`
		Agent     string           `json:"agent,omitempty" doc:"Or the agent of a new session for each message"`
		Text      string           `json:"text"`
	}
}

type scheduleOutput struct {
	Location string `header:"Location"`
	Body     schedule.Schedule
}

func (s *Server) createSchedule(ctx context.Context, c caller, in *createScheduleInput) (*scheduleOutput, error) {
	b := in.Body
	want := schedule.Schedule{
		ID: b.ID, Label: b.Label, Tenant: c.Tenant, UserID: c.UserID, Cron: b.Cron, Zone: b.Zone, CatchUp: b.CatchUp, Text: b.Text,
	}
	if b.SessionID != "" {
		i, err := SessionRef{b.SessionID}.resolve(ctx, c)
		if err != nil {
			return nil, err
		}
		want.SessionID = i.ID
	}
	if b.Agent != "" {
		def, err := s.definition(b.Agent, nil)
		if err != nil {
			return nil, err
		}
		want.Agent = &def
	}
	var made schedule.Schedule
	var err error
	if key := in.key(); key != "" {
		made, err = s.config.Schedules.CreateOnce(ctx, want, c.Identity().Actor, key)
	} else {
		made, err = s.config.Schedules.Create(ctx, want, c.Identity().Actor)
	}
	if err != nil {
		return nil, err
	}
	return &scheduleOutput{Location: "/v1/schedules/" + made.ID, Body: made}, nil
}

type schedulesOutput struct {
	Body struct {
		Items []schedule.Schedule `json:"items"`
	}
}

func (s *Server) listSchedules(ctx context.Context, c caller, _ *nothing) (*schedulesOutput, error) {
	list, err := s.config.Schedules.List(ctx, c.Tenant)
	if err != nil {
		return nil, err
	}
	out := &schedulesOutput{}
	out.Body.Items = list
	return out, nil
}

type onSchedule struct {
	ID string `path:"id"`
}

func (s *Server) getSchedule(ctx context.Context, c caller, in *onSchedule) (*scheduleOutput, error) {
	found, err := s.config.Schedules.Get(ctx, c.Tenant, in.ID)
	return &scheduleOutput{Body: found}, err
}

func (s *Server) pauseSchedule(ctx context.Context, c caller, in *onSchedule, pause bool) (*scheduleOutput, error) {
	changed, err := s.config.Schedules.Pause(ctx, c.Tenant, in.ID, pause, c.Identity().Actor)
	return &scheduleOutput{Body: changed}, err
}

func (s *Server) deleteSchedule(ctx context.Context, c caller, in *onSchedule) (*scheduleOutput, error) {
	found, err := s.config.Schedules.Get(ctx, c.Tenant, in.ID)
	if err == nil {
		err = s.config.Schedules.Delete(ctx, c.Tenant, in.ID, c.Identity().Actor)
	}
	return &scheduleOutput{Body: found}, err
}

package server

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/holdfast-dev/holdfast/apikey"
)

func (s *Server) addKeys() {
	tags := []string{"keys"}
	register(s, apikey.Admin, huma.Operation{
		OperationID: "create-key", Method: http.MethodPost, Path: "/v1/keys", DefaultStatus: http.StatusCreated,
		Summary: "Create an API key of the caller's tenant", Tags: tags,
		Description: "The secret is in this response and nowhere else: a repetition with the same idempotency key returns the key without it.",
	}, s.createKey)
	register(s, apikey.Admin, huma.Operation{
		OperationID: "list-keys", Method: http.MethodGet, Path: "/v1/keys",
		Summary: "List the API keys of the caller's tenant", Tags: tags,
	}, s.listKeys)
	register(s, apikey.Admin, huma.Operation{
		OperationID: "revoke-key", Method: http.MethodDelete, Path: "/v1/keys/{id}",
		Summary: "Revoke an API key of the caller's tenant", Tags: tags, Description: repeatable,
	}, s.revokeKey)
}

type createKeyInput struct {
	KeyHeader
	Body struct {
		Label     string         `json:"label,omitempty" maxLength:"200"`
		UserID    string         `json:"userId,omitempty" doc:"The user that requests with the key act for"`
		Scopes    []apikey.Scope `json:"scopes" minItems:"1"`
		ExpiresAt *time.Time     `json:"expiresAt,omitempty"`
	}
}

type createKeyOutput struct {
	Location string `header:"Location"`
	Body     struct {
		apikey.Key
		Secret string `json:"secret,omitempty" doc:"Not in the response to a repetition"`
	}
}

func (s *Server) createKey(ctx context.Context, c caller, in *createKeyInput) (*createKeyOutput, error) {
	want := apikey.Key{Label: in.Body.Label, Tenant: c.Tenant, UserID: in.Body.UserID, Scopes: in.Body.Scopes, ExpiresAt: in.Body.ExpiresAt}
	var key apikey.Key
	var secret string
	var err error
	if given := in.key(); given != "" {
		key, secret, err = s.config.Keys.CreateOnce(ctx, want, c.Identity().Actor, given)
	} else {
		key, secret, err = s.config.Keys.Create(ctx, want, c.Identity().Actor)
	}
	if err != nil {
		return nil, err
	}
	out := &createKeyOutput{Location: "/v1/keys/" + key.ID}
	out.Body.Key, out.Body.Secret = key, secret
	return out, nil
}

type keysOutput struct {
	Body struct {
		Items []apikey.Key `json:"items"`
	}
}

func (s *Server) listKeys(ctx context.Context, c caller, _ *nothing) (*keysOutput, error) {
	list, err := s.config.Keys.List(ctx, c.Tenant)
	if err != nil {
		return nil, err
	}
	out := &keysOutput{}
	out.Body.Items = list
	return out, nil
}

type onKey struct {
	ID string `path:"id"`
}

type keyOutput struct{ Body apikey.Key }

func (s *Server) revokeKey(ctx context.Context, c caller, in *onKey) (*keyOutput, error) {
	key, err := s.config.Keys.Revoke(ctx, c.Tenant, in.ID, c.Identity().Actor)
	if err != nil {
		return nil, err
	}
	return &keyOutput{Body: key}, nil
}

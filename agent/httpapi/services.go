package httpapi

import (
	"encoding/json"
	"math"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/rondel-project/rondel/api"
)

func (s *Server) agentServices(w http.ResponseWriter, r *request) error {
	out := list(slices.Clone(s.o.Services.Services()))
	slices.SortFunc(out, func(a, b api.Service) int { return strings.Compare(a.ID, b.ID) })
	for i := range out {
		out[i].Tags, out[i].Checks = list(out[i].Tags), list(out[i].Checks)
	}
	return r.answer(w, out)
}

func (s *Server) serviceRegister(w http.ResponseWriter, r *request) error {
	text, err := r.jsonBody(w, smallBody)
	if err != nil {
		return err
	}
	reg, err := readRegistration(text)
	if err != nil {
		return err
	}
	if err := s.o.Services.Register(reg); err != nil {
		return err
	}
	return r.done(w)
}

func readRegistration(text []byte) (reg api.ServiceRegistration, err error) {
	if text == nil {
		return reg, badRequest("the body is empty; want a JSON object with at least Name and Port")
	}
	err = readObject(text, "service",
		field{"ID", &reg.ID},
		field{"Name", &reg.Name},
		field{"Address", &reg.Address},
		field{"Port", &reg.Port},
		field{"Weight", &reg.Weight},
		field{"Backup", &reg.Backup},
		field{"Protocol", &reg.Protocol},
		field{"SendProxy", &reg.SendProxy},
		field{"MaxConnections", &reg.MaxConnections},
		field{"SlowStart", &reg.SlowStart},
		field{"Tags", listOf(func(b []byte) error {
			var tag string
			err := readString(b, &tag)
			reg.Tags = append(reg.Tags, tag)
			return err
		})},
		field{"Checks", listOf(func(b []byte) error {
			check, err := readCheck(b)
			reg.Checks = append(reg.Checks, check)
			return err
		})},
	)
	if err != nil {
		return reg, err
	}
	if err := checkName("service name (Name)", reg.Name); err != nil {
		return reg, err
	}
	if reg.ID != "" {
		if err := checkName("instance id (ID)", reg.ID); err != nil {
			return reg, err
		}
	}
	if reg.Port < 1 || reg.Port > 65535 {
		return reg, badRequest("service: Port: %d is not between 1 and 65535", reg.Port)
	}
	if reg.Weight != nil && (*reg.Weight < 0 || *reg.Weight > 65535) {
		return reg, badRequest("service: Weight: %d is not between 0 and 65535", *reg.Weight)
	}
	return reg, nil
}

func readCheck(text []byte) (c api.ServiceCheck, err error) {
	err = readObject(text, "check",
		field{"ID", &c.ID},
		field{"HTTP", &c.HTTP},
		field{"TCP", &c.TCP},
		field{"TTL", &c.TTL},
		field{"Interval", &c.Interval},
		field{"Timeout", &c.Timeout},
		field{"Method", &c.Method},
		field{"Host", &c.Host},
		field{"Scheme", &c.Scheme},
		field{"Healthy", &c.Healthy},
		field{"Warning", &c.Warning},
		field{"Contains", &c.Contains},
		field{"BodyLimit", &c.BodyLimit},
		field{"Rise", &c.Rise},
		field{"Fall", &c.Fall},
	)
	if err != nil {
		return c, err
	}
	kinds := 0
	for _, set := range []bool{c.HTTP != "", c.TCP != "", c.TTL != 0} {
		if set {
			kinds++
		}
	}
	if kinds != 1 {
		return c, badRequest("exactly one of HTTP, TCP and TTL makes a check, this one has %d", kinds)
	}
	if c.TTL != 0 && (c.Interval != 0 || c.Timeout != 0) {
		return c, badRequest("a TTL check waits for heart-beats: it has no Interval and no Timeout")
	}
	return c, nil
}

func (s *Server) serviceDeregister(w http.ResponseWriter, r *request) error {
	if err := s.o.Services.Deregister(r.params[0]); err != nil {
		return err
	}
	return r.done(w)
}

func (s *Server) serviceMaintenance(w http.ResponseWriter, r *request) error {
	if !r.query.Has("enable") {
		return badRequest("?enable=true or ?enable=false is missing")
	}
	enable, err := r.flag("enable")
	if err != nil {
		return err
	}
	drain, err := r.flag("drain")
	if err != nil {
		return err
	}
	m := Maintenance{Enable: enable, Drain: drain, Reason: r.query.Get("reason")}
	if text := r.query.Get("deadline"); text != "" {
		m.Deadline, err = time.ParseDuration(text)
		if err != nil || m.Deadline <= 0 || !enable || !drain {
			return badRequest("?deadline=%s: goes with enable=true and drain=true, and is a positive time with a unit, as 10m", text)
		}
	}
	if err := s.o.Services.SetMaintenance(r.params[0], m); err != nil {
		return err
	}
	return r.done(w)
}

func (s *Server) serviceWeight(w http.ResponseWriter, r *request) error {
	text, err := r.jsonBody(w, smallBody)
	if err != nil {
		return err
	}
	weight := -1
	if text != nil {
		err = readObject(text, "weight", field{"Weight", &weight})
	}
	switch {
	case err != nil:
		return err
	case weight < 0 || weight > 65535:
		return badRequest(`want {"Weight": N} with a whole number from 0, which is no new clients, to 65535`)
	}
	if err := s.o.Services.SetWeight(r.params[0], weight); err != nil {
		return err
	}
	return r.done(w)
}

func (s *Server) serviceLoad(w http.ResponseWriter, r *request) error {
	text, err := r.jsonBody(w, smallBody)
	if err != nil {
		return err
	}
	load := math.NaN()
	if text != nil {
		err = readObject(text, "load", field{"Load", func(b []byte) error { return json.Unmarshal(b, &load) }})
	}
	switch {
	case err != nil:
		return err
	case math.IsNaN(load) || load < 0:
		return badRequest(`want {"Load": N}, where 0 is idle and 1 is full`)
	}
	if err := s.o.Services.ReportLoad(r.params[0], load); err != nil {
		return err
	}
	return r.done(w)
}

func (s *Server) checkReport(status string) func(http.ResponseWriter, *request) error {
	return func(w http.ResponseWriter, r *request) error {
		if err := s.o.Checks.Report(r.params[0], status, r.query.Get("note")); err != nil {
			return err
		}
		return r.done(w)
	}
}

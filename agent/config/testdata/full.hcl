# Every option that exists, at a value that is allowed and is not the default.
dev              = false
node_name        = "web1"
data_dir         = "/tmp/rondel-full"
pid_file         = "/tmp/rondel-full.pid"
witness          = true
bind             = "10.0.0.5"
advertise        = "192.0.2.10"
client           = "127.0.0.2"
bootstrap_expect = 3
join             = ["10.0.0.11"]
retry_join       = ["10.0.0.11", "web2:9701", "[2001:db8::1]"]
profile          = "wan"
encrypt          = "MDEyMzQ1Njc4OWFiY2RlZg=="
log_level        = "debug"
log_json         = true

ports {
  http   = 9700
  gossip = 9701
  rpc    = 9702
}

session {
  backend      = "ring"
  replicas     = 1
  on_partition = "refuse"
  durability   = "memory"
  fsync        = "everysec"
  ttl          = "45m"
  max_age      = "12h"
  max_count    = 5000
  max_size     = "2MiB"
  always_load  = true
}

ring {
  reap_after    = "20m"
  stall_timeout = "45s"
}

api {
  hosts = ["Rondel.example.com"]
}

service "shop" {
  name    = "store"
  address = "10.0.0.9"
  port    = 8080
  weight  = 50
  backup  = true

  protocol        = "https"
  send_proxy      = "v2"
  max_connections = 40
  slow_start      = "30s"

  tags = ["blue"]
  check {
    http     = "/health"
    interval = "3s"

    method     = "HEAD"
    host       = "shop.example.com"
    scheme     = "https"
    healthy    = "200-204,401"
    warning    = "429,503"
    contains   = "well"
    body_limit = "8KiB"
    rise       = 2
    fall       = 3

    timeout  = "500ms"
  }
  check {
    tcp = ":8080"
  }
  check {
    ttl = "15s"
  }
}

route "shop" {
  host    = "*.Example.com"
  path    = "/shop"
  service = "store"
  balance = "hash"
  hash_on = "header:X-User"

  hash_fallback       = "least_load"
  hash_balance_factor = 150

  prefer  = "local"
  mode    = "redirect"

  redirect_to = "https://{member}.example.com"

  sticky {
    cookie    = "__Host-lb"
    follow    = "instance"
    strict    = true
    learn     = "JSESSIONID"

    learn_path   = "jsessionid"
    learn_query  = "sid"
    learn_header = "X-Session"

    same_site = "None"
    secure    = "on"
    http_only = false
    path      = "/"
    domain    = ""
    max_age   = "24h"
  }
  retry {
    attempts = 5
    on       = ["connect", "keyed", "503"]
    within   = "8s"
    body     = "1MiB"
  }
  queue {
    length  = 20
    timeout = "3s"
  }
  outlier {
    failures    = 7
    statuses    = ["500", "503"]
    eject_for   = "20s"
    max_eject   = "2m"
    max_percent = 30
  }
  timeouts {
    connect  = "2s"
    send     = "30s"
    response = "5m"
    tunnel   = "12h"
  }
  limits {
    request_body = "100MiB"
  }
}

proxy {
  http            = ":9780"
  https           = ""
  cert_file       = "cert.pem"
  key_file        = "key.pem"
  trusted_proxies = ["10.0.0.0/8", "2001:db8::/32", "192.0.2.1"]

  proxy_protocol      = "listed"
  proxy_protocol_from = ["10.0.0.7", "2001:db8:7::/48"]

  redirect_https  = false
  tls_min_version = "1.3"
  certificate {
    cert_file = "other.pem"
    key_file  = "other-key.pem"
  }
  acme {
    hosts     = []
    email     = "ops@example.com"
    directory = "https://acme.example.com/directory"
    ca_file   = "authority.pem"
    agree     = true
  }
  timeouts {
    handshake     = "5s"
    header        = "15s"
    body          = "30s"
    idle          = "50s"
    connect       = "500ms"
    send          = "31s"
    response      = "2m"
    tunnel        = "2h"
    instance_idle = "20s"
    drain         = "45s"
  }
  limits {
    request_head           = "128KiB"
    response_head          = "512KiB"
    request_body           = "10MiB"
    min_rate               = "100B"
    connections            = 10000
    connections_per_client = 100
    idle_per_instance      = 64
  }
  access_log {
    path   = "stdout"
    format = "combined"
    query  = "none"
  }
  h2c         = true
  max_streams = 100

  instance_ca_file     = "testdata/instances.pem"
  instance_server_name = "*.internal"
  instance_skip_verify = true
}

redis {
  address = ""
}

## daemon/broker/

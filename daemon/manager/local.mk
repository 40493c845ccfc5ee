## daemon/manager/
